"""attachments of other kinds than text, with their bytes; tags of conversations"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column(
        "attachment", sa.Column("kind", sa.String(), nullable=False, server_default="text")
    )
    op.add_column("attachment", sa.Column("details", sa.String()))
    op.create_table(
        "attachment_data",
        sa.Column(
            "attachment_row_id",
            sa.Integer(),
            sa.ForeignKey(
                "attachment.row_id",
                name="fk_attachment_data_attachment_row_id",
                ondelete="CASCADE",
            ),
            primary_key=True,
        ),
        sa.Column("media_type", sa.String(), nullable=False),
        sa.Column("blob", sa.LargeBinary(), nullable=False),
    )
    op.create_table(
        "conversation_tag",
        sa.Column(
            "conversation_row_id",
            sa.Integer(),
            sa.ForeignKey(
                "conversation.row_id",
                name="fk_conversation_tag_conversation_row_id",
                ondelete="CASCADE",
            ),
            primary_key=True,
        ),
        sa.Column("name", sa.String(), primary_key=True),
    )
    op.create_index("ix_conversation_tag_name", "conversation_tag", ["name"])
