"""How a run's tests are shared among processes: each kind's server is started in one of them."""

import pytest

from tests.sharing import KINDS, LASTS, ROOT, lasts, unit


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("tests/contract/test_faults.py::test_a_wrong_password_is_refused[mysql-'\\\\]", "mysql"),
        ("tests/contract/test_faults.py::test_a_wrong_password_is_refused[mysql-a::b]", "mysql"),
        ("tests/contract/test_characters.py::test_any_printable_character[0-mongodb]", "mongodb"),
        ("tests/contract/test_mongodb_values.py::test_dates[mysql]", "mysql"),
        ("tests/contract/test_mongodb_values.py::test_dates[sql]", "mongodb"),
        ("tests/contract/test_session.py::test_postgresql_limits_a_statement", "postgresql"),
        ("tests/contract/test_plugin_crm.py::test_one", "mongodb"),
        ("tests/contract/test_tls.py::test_all", "tests/contract/test_tls.py"),
        ("tests/unit/test_mysql.py::test_rows[mysql]", "tests/unit/test_mysql.py"),
        ("tests/integration/test_jobs.py::Tests::test_one[mysql]", "tests/integration/test_jobs.py"),
    ],
)
def test_a_unit_is_a_file_or_all_that_reads_from_a_kind(test: str, expected: str) -> None:
    assert unit(test) == expected


def test_what_lasts_long_exists_and_begins_before_the_rest() -> None:
    """A file that was renamed would begin among the last."""
    for name in LASTS:
        assert name in KINDS or (ROOT / name).is_file(), name
    assert lasts("tests/integration/test_any.py", 10) > lasts("tests/unit/test_any.py", 100)
