"""Fills databases with a realistic, repeatable sample: every run and every machine makes the same rows."""

from datetime import UTC, datetime, timedelta
from hashlib import md5
from typing import Any
from uuid import UUID

from bson import Binary, Decimal128, ObjectId

from infra.local import mariadb, secantus
from infra.local.postgresql import Server

DATABASE = "payments"

SCHEMA = """
CREATE SCHEMA accounting;
CREATE TYPE public.movement_kind AS ENUM ('deposit', 'withdrawal', 'transfer', 'fee');
CREATE TABLE public.accounts (
    id bigint PRIMARY KEY,
    email text NOT NULL UNIQUE,
    name text NOT NULL,
    country char(2) NOT NULL,
    active boolean NOT NULL,
    credit_limit numeric(12,2),
    created_at timestamptz NOT NULL
);
CREATE TABLE accounting.invoices (
    id bigint PRIMARY KEY,
    account_id bigint NOT NULL REFERENCES public.accounts,
    number text NOT NULL,
    status text NOT NULL,
    amount numeric(14,2) NOT NULL,
    currency char(3) NOT NULL,
    issued_on date NOT NULL,
    paid_at timestamptz
);
CREATE TABLE public.movements (
    id bigint PRIMARY KEY,
    account_id integer NOT NULL,
    branch smallint,
    amount numeric(20,4) NOT NULL,
    rate double precision,
    weight real,
    kind public.movement_kind NOT NULL,
    settled boolean,
    note text,
    code varchar(12),
    reference uuid NOT NULL,
    booked_at timestamptz NOT NULL,
    local_time timestamp,
    value_date date,
    cut_off time,
    duration interval,
    details jsonb,
    receipt bytea,
    labels text[],
    scores integer[],
    origin inet
);
"""

ROWS = r"""
INSERT INTO public.accounts
SELECT n, 'account' || n || '@example.com', 'Account ' || upper(substr(md5(n::text), 1, 6)),
    (ARRAY['BR', 'DE', 'JP', 'US', 'ZA'])[1 + n % 5], n % 7 <> 0,
    CASE WHEN n % 4 > 0 THEN (n * 37 % 100000) / 100.0 END,
    timestamptz '2024-01-01 00:00Z' + n * interval '97 minutes 13.125 seconds'
FROM generate_series(1, 5000) n;

INSERT INTO accounting.invoices
SELECT n, 1 + n * 31 % 5000, 'INV-' || lpad(n::text, 8, '0'),
    (ARRAY['paid', 'pending', 'draft', 'void'])[1 + n * 7 % 4],
    (n::bigint * 7919 % 10000000) / 100.0, (ARRAY['EUR', 'USD', 'BRL'])[1 + n % 3],
    date '2025-01-01' + n % 540,
    CASE WHEN n * 7 % 4 = 0 THEN timestamptz '2025-01-15 12:00Z' + n * interval '23 minutes' END
FROM generate_series(1, 20000) n;

INSERT INTO public.movements
SELECT n, 1 + n % 5000, CASE WHEN n % 11 > 0 THEN n % 300 END,
    (n::numeric * 1234577 % 99999999999) / 10000 - 500000,
    CASE WHEN n % 13 > 0 THEN n / 7.0 END, (n % 1000) / 8.0,
    ('{deposit,withdrawal,transfer,fee}'::public.movement_kind[])[1 + n % 4],
    CASE WHEN n % 3 > 0 THEN n % 2 = 0 END,
    CASE n % 5 WHEN 0 THEN NULL WHEN 1 THEN 'Überweisung "Miete" für Nr. ' || n
        WHEN 2 THEN E'first line\nsecond line\t' || n WHEN 3 THEN '' ELSE 'café 東京 \' || n END,
    substr(hash, 1, 12), hash::uuid,
    timestamptz '2026-01-01 00:00Z' + n * interval '61.234567 seconds',
    timestamp '2026-01-01 00:00' + n * interval '61 seconds', date '2026-01-01' + n % 365,
    time '00:00' + n % 86400 * interval '1 second', n % 90 * interval '1 day 02:03:04.5',
    CASE WHEN n % 6 > 0 THEN ('{"channel": "web", "step": ' || n % 9 || ', "tags": ["a", null]}')::jsonb END,
    CASE WHEN n % 8 > 0 THEN decode(hash, 'hex') END,
    ARRAY['label ' || n % 17, NULL, 'x"y'], CASE WHEN n % 9 > 0 THEN ARRAY[n, -n] END,
    ('10.' || n % 256 || '.' || n / 256 % 256 || '.1')::inet
FROM generate_series(1, 200000) n, LATERAL (SELECT md5('movement ' || n) AS hash) h;

ANALYZE;
"""


def fill(server: Server) -> None:
    """Create the sample's database: 5,000 accounts, 20,000 invoices, 200,000 movements of every common type."""
    with server.connection() as connection:
        connection.execute(f"CREATE DATABASE {DATABASE}")
    with server.connection(DATABASE) as connection:
        connection.execute(SCHEMA)
        connection.execute(ROWS)


TRANSACTIONS = 2_000
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def fill_collections(server: secantus.Server) -> None:
    """Create `transactions`: documents of every common BSON type."""
    with server.client() as client:
        client[server.database]["transactions"].insert_many(map(_transaction, range(1, TRANSACTIONS + 1)))


def _transaction(n: int) -> dict[str, Any]:
    digest = md5(f"transaction {n}".encode(), usedforsecurity=False).hexdigest()
    return {
        "_id": ObjectId(digest[:24]),
        "account": n % 5000,
        "amount": Decimal128(f"{n * 7919 % 1_000_000 / 100:.2f}"),
        "rate": n / 7,
        "at": BEGIN + timedelta(seconds=61 * n, milliseconds=n % 1000),
        "reference": Binary.from_uuid(UUID(digest)),
        "settled": n % 3 > 0,
        "merchant": {"name": f"Café Nr. {n % 90}", "tags": ["web", None, n % 9]},
        **({"note": "first line\nsecond line"} if n % 4 else {}),
    }


CARDS = """
CREATE TABLE cards (
    id bigint unsigned PRIMARY KEY,
    account_id int NOT NULL,
    number varchar(19) NOT NULL,
    kind enum('debit', 'credit') NOT NULL,
    credit_limit decimal(12,2),
    valid_until date NOT NULL,
    created_at timestamp(3) NOT NULL,
    blocked bit(1) NOT NULL,
    settings longtext CHECK (json_valid(settings))
);
INSERT INTO cards
SELECT seq, 1 + seq % 5000, concat('4000-', lpad(seq, 12, '0')), elt(1 + seq % 2, 'debit', 'credit'),
    if(seq % 4 > 0, seq * 37 % 100000 / 100, NULL), '2027-01-31' + INTERVAL seq % 36 MONTH,
    '2026-01-01' + INTERVAL seq * 97 SECOND, seq % 7 = 0, concat('{"contactless": ', if(seq % 2, 'true', 'false'), '}')
FROM seq_1_to_3000
"""


def fill_cards(server: mariadb.Server) -> None:
    """Create `cards`: 3,000 rows of MariaDB's common types."""
    with server.connection() as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute(CARDS)
        while cursor.nextset():
            pass
