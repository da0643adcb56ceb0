"""the download queue"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "download",
        sa.Column("row_id", sa.Integer(), primary_key=True),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("endpoint", sa.String(), nullable=False),
        sa.Column("repo_id", sa.String(), nullable=False),
        sa.Column("revision", sa.String(), nullable=False),
        sa.Column("folder", sa.String(), nullable=False),
        sa.Column("files", sa.String(), nullable=False),
        sa.Column("error", sa.String(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("added_us", sa.Integer(), nullable=False),
        sa.Column("retry_us", sa.Integer()),
        sa.Column("finished_us", sa.Integer()),
        sa.UniqueConstraint("id", name="uq_download_id"),
        sqlite_autoincrement=True,
    )
