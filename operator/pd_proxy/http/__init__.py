"""HTTP/1.1, both sides, on httptools' parsers."""
