"""Alembic's environment. It is given a connection, with its transaction already begun."""

from alembic import context

from models.tables import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    render_as_batch=True,
    transactional_ddl=True,
)
context.run_migrations()
