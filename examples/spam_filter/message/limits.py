"""How much of one message is looked at: a sender decides what a message holds, never how much work it makes us.

Everything beyond a limit is left unread by the features; it is still delivered, byte for byte.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "CHUNKS",
    "CHUNK_WORDS",
    "COMPRESSED_CHARACTERS",
    "HEADER_BYTES",
    "HEADER_FIELDS",
    "KNOWN_CHARACTERS",
    "LETTERS",
    "LINKS",
    "PARTS",
    "PART_BYTES",
    "PART_DEPTH",
    "RAW_BYTES",
    "SAMPLE_SPACING",
    "SAMPLE_WINDOWS",
    "SAMPLE_WORDS",
    "SUBJECT_CHARACTERS",
    "SUBJECT_WORDS",
    "TEXT_CHARACTERS",
]

RAW_BYTES: Final = 1_048_576
"""Bytes of a message that are searched for the end of its header, and for parts."""
HEADER_BYTES: Final = 65_536
"""Bytes of a header block."""
HEADER_FIELDS: Final = 400
"""Fields of a header block."""
PART_DEPTH: Final = 8
"""Parts within parts."""
PARTS: Final = 64
"""Parts in all."""
PART_BYTES: Final = 131_072
"""Bytes of one text part that are decoded."""
TEXT_CHARACTERS: Final = 49_152
"""Characters of text that are read."""
KNOWN_CHARACTERS: Final = 16_384
"""Characters of text, or of a page, up to which its words are known well enough to call a message ham."""
SUBJECT_CHARACTERS: Final = 500
"""Characters of the subject."""
CHUNKS: Final = 110
"""Pieces of the text whose words are all looked up, alone and in pairs: as many as `KNOWN_CHARACTERS` of short words have."""
CHUNK_WORDS: Final = 50
"""Words of such a piece: they are scored together, so that other text cannot outweigh them."""
SAMPLE_WINDOWS: Final = 6
"""Places in the text from which a few words are looked up first; a long text has more of them."""
SAMPLE_SPACING: Final = 350
"""Characters between these places in a long text: a few sentences in it do not go unnoticed."""
SAMPLE_WORDS: Final = 10
"""Words at each of them."""
FOOTER_WINDOWS: Final = 2
"""The same places in a footer."""
SUBJECT_WORDS: Final = 48
"""Different words of the subject."""
LINKS: Final = 100
"""Links."""
LETTERS: Final = 2_000
"""Letters that the gibberish measure reads."""
COMPRESSED_CHARACTERS: Final = 16_384
"""Characters that are compressed."""
