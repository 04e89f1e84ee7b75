"""What decoders raise for bytes that do not hold what they should; nesting beyond Python's depth included."""

import msgspec

UNREADABLE = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)
