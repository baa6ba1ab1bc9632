"""What a page says: its text in reading order, what of it a person can see, and the text of PDF files."""
