"""Tickets from files: CSV and JSON lines, read as they come, row by row, whatever their size."""
