"""Facts about a message, from the cheapest tier to the most expensive."""
