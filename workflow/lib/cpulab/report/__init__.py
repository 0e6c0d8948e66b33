"""The report: one HTML page from verdicts and records."""
