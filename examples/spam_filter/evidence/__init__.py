"""Evidence from the network: who really sent a message, and what block lists say of it."""
