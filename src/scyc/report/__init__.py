"""From records to what one reads: rows, paired tests, tables."""
