"""${message}

A table that is built anew (batch) loses its triggers: call
`models.search.index.create_search_index` or its parts again, and test the search.
"""

import sqlalchemy as sa
from alembic import op
${imports if imports else ""}

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}


def upgrade() -> None:
    ${upgrades if upgrades else "pass"}
