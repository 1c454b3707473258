"""What a saved position means to the server, asked once before a read goes on behind it.

MySQL makes NULL of what it cannot read, with a warning, and `key > NULL` is true of no row: the rest of a table would
be missing from a result that says it is whole. So the server is asked for the text of the value that it takes the
position for, and only the text that was saved will do.
"""

from collections.abc import Sequence

from fetcher.engines._mysql.dialect import DIALECT, key_text
from fetcher.engines._mysql.opening import Opened
from fetcher.engines._mysql.rows import RESUMING, Statement
from fetcher.errors import ChangedError
from fetcher.model import Column, Position


def confirm(connection: Opened, key: Sequence[Column], after: Position) -> None:
    """Raise `ChangedError`, so that the table is read anew, unless the position is a value of its own key again."""
    texts = [text for _, text in after.values]
    listed = ", ".join(key_text(column, DIALECT.key("?", column)) for column in key)
    asked = Statement.of(f"SELECT {listed}", texts, RESUMING)
    asked.prepare(connection)
    with connection.cursor() as cursor:
        cursor.execute(asked.execute)
        found = cursor.fetchone() or ()
    if list(found) != [text.encode() for text in texts]:
        raise ChangedError("MySQL does not read the saved position as it wrote it; the table has to be read again")
