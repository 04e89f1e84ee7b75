"""What a line of a Codex rollout holds, member by member, as far as a view needs it. Only shapes.

Facts: formats/native-agents.md sections 2 and 8.2.
"""

import msgspec
from msgspec import Raw, Struct

NONE = Raw(b"null")


class Line(Struct):
    type: str = ""
    record_type: str = ""
    timestamp: str | int | float | None = None
    payload: Raw = NONE


class Meta(Struct):
    id: str | None = None
    timestamp: str | int | float | None = None
    cwd: str | None = None
    model_provider: str | None = None
    forked_from_id: str | None = None
    parent_thread_id: str | None = None
    history_base: Raw = NONE
    source: Raw = NONE


class Base(Struct):
    thread_id: str | None = None
    end_ordinal_exclusive: int | None = None
    end_byte_offset: int | None = None


class Spawn(Struct):
    parent_thread_id: str | None = None


class Source(Struct):
    subagent: Raw = NONE


class Subagent(Struct):
    thread_spawn: Raw = NONE
    parent_thread_id: str | None = None


class Turn(Struct):
    cwd: str | None = None
    model: str | None = None
    model_provider_id: str | None = None


class Item(Struct):
    type: str = ""
    role: str = ""
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    author: str | None = None
    recipient: str | None = None
    content: Raw = NONE
    summary: Raw = NONE
    encrypted_content: str | None = None
    arguments: Raw = NONE
    parameters: Raw = NONE
    input: Raw = NONE
    action: Raw = NONE
    output: Raw = NONE
    tools: Raw = NONE
    result: str | None = None
    revised_prompt: str | None = None


class Part(Struct):
    type: str = ""
    text: str | None = None
    refusal: str | None = None
    image_url: str | None = None


class Search(Struct):
    query: str | None = None
    url: str | None = None


class Output(Struct):
    output: Raw = NONE
    content: Raw = NONE
    success: bool | None = None
    metadata: Raw = NONE


class Exit(Struct):
    exit_code: int | None = None


class Event(Struct):
    type: str = ""
    thread_name: str | None = None
    reason: str | None = None
    message: str | None = None
    num_turns: int | None = None
    info: Raw = NONE
    thread_settings: Raw = NONE


class Tokens(Struct):
    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_input_tokens: int = 0
    output_tokens: int = 0


class Info(Struct):
    total_token_usage: Tokens | None = None
    last_token_usage: Tokens | None = None


class Compacted(Struct):
    message: str | None = None
    replacement_history: Raw = NONE


LINE = msgspec.json.Decoder(Line)
META = msgspec.json.Decoder(Meta)
BASE = msgspec.json.Decoder(Base)
SPAWN = msgspec.json.Decoder(Spawn)
SOURCE = msgspec.json.Decoder(Source)
SUBAGENT = msgspec.json.Decoder(Subagent)
TURN = msgspec.json.Decoder(Turn)
ITEM = msgspec.json.Decoder(Item)
PART = msgspec.json.Decoder(Part)
SEARCH = msgspec.json.Decoder(Search)
OUTPUT = msgspec.json.Decoder(Output)
EXIT_CODE = msgspec.json.Decoder(Exit)
EVENT = msgspec.json.Decoder(Event)
INFO = msgspec.json.Decoder(Info)
COMPACTED = msgspec.json.Decoder(Compacted)
CONTENT: msgspec.json.Decoder[str | list[Raw] | None] = msgspec.json.Decoder(str | list[Raw] | None)
