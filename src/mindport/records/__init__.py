"""What a migration leaves behind: the migration itself, its record and its report."""
