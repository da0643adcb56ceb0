"""what is known of the weights files on this machine"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "local_file",
        sa.Column("path", sa.String(), primary_key=True),
        sa.Column("size_bytes", sa.Integer(), nullable=False),
        sa.Column("mtime_ns", sa.Integer(), nullable=False),
        sa.Column("inode", sa.String(), nullable=False),
        sa.Column("sha256", sa.String()),
        sa.Column("facts", sa.String()),
        sa.Column("reader", sa.String(), nullable=False),
        sa.Column("seen_us", sa.Integer(), nullable=False),
    )
