"""What is stored: tables, records, migrations, questions asked of the database."""
