"""A message as bytes that may be anything: header, parts, text, words; bounded, and nothing raises."""
