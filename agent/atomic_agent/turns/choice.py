"""Which provider, model and effort answer the next turn, and why (A8). Decides; sends nothing.

Order: flag, OPENCODE_ZEN_MODEL, the resumed session, this machine's picks, the zen default. What falls
back is said in `notes`; an explicit choice never falls back.
"""

from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from atomic_agent.turns.providers.port import Endpoint, Protocol
from atomic_sessions.context import Settings
from atomic_sessions.errors import ProviderError, UsageError

EFFORTS = ("off", "minimal", "low", "medium", "high", "xhigh", "max")
ZEN_MODEL = "OPENCODE_ZEN_MODEL"


class Provider(Struct, frozen=True):
    """A provider we speak to: names of its environment variables, address and usual model."""

    name: str
    protocol: Protocol
    key_name: str
    url_name: str
    url: str
    model: str


PROVIDERS = {
    "zen": Provider(
        "zen",
        "openai-chat",
        "OPENCODE_API_KEY",
        "OPENCODE_ZEN_BASE_URL",
        "https://opencode.ai/zen/v1",
        "big-pickle",
    ),
    "openai": Provider(
        "openai", "openai-chat", "OPENAI_API_KEY", "OPENAI_BASE_URL", "https://api.openai.com/v1", "gpt-5.5"
    ),
    "anthropic": Provider(
        "anthropic",
        "anthropic-messages",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
        "https://api.anthropic.com",
        "claude-sonnet-5",
    ),
}
ALIASES = {"opencode": "zen"}
"""What other agents call a provider of ours."""

Keys = Callable[[], Mapping[str, str]]
"""The keys in the keystore; asked only when the environment has none."""


class Choice(Struct, frozen=True):
    """What answers. `endpoint` None: there is no key at all; `notes` are sentences for the person."""

    provider: str
    model: str
    effort: str
    endpoint: Endpoint | None
    notes: tuple[str, ...] = ()

    @property
    def settings(self) -> Settings:
        return Settings(self.provider, self.model, self.effort)


def choose(
    flags: Settings, environ: Mapping[str, str], session: Settings, saved: Settings, keys: Keys
) -> Choice:
    """Apply the order. Raises UsageError for a provider nobody knows, ProviderError for an explicit one
    without a key."""
    effort = flags.effort or session.effort or saved.effort
    if flags.provider:
        provider = known(flags.provider)
        model = flags.model or _model_for(provider, environ, session, saved)
        return Choice(provider.name, model, effort, _explicit(provider, environ, keys))
    notes: list[str] = []
    for name, model, source in _candidates(environ, session, saved):
        found = PROVIDERS.get(ALIASES.get(name, name))
        endpoint = endpoint_of(found, environ, keys) if found is not None else None
        if found is not None and endpoint is not None:
            return Choice(found.name, flags.model or model or found.model, effort, endpoint, tuple(notes))
        if source and (note := _unusable(source, name, model, found)) not in notes:
            notes.append(note)
    return Choice("zen", flags.model or PROVIDERS["zen"].model, effort, None, tuple(notes))


def _candidates(
    environ: Mapping[str, str], session: Settings, saved: Settings
) -> Iterator[tuple[str, str, str]]:
    """(provider, model, what it is called when it cannot be used); the last ones are never missed."""
    if environ.get(ZEN_MODEL):
        yield "zen", environ[ZEN_MODEL], ZEN_MODEL
    if session.model:
        yield session.provider, session.model, "The session's model"
    if saved.model:
        yield saved.provider, saved.model, "The saved model"
    yield "zen", "", ""
    yield "openai", "", ""
    yield "anthropic", "", ""


def _unusable(source: str, name: str, model: str, found: Provider | None) -> str:
    what = f"{name}/{model}" if name else model
    why = f"{found.key_name} is not set" if found is not None else "its provider is not known here"
    return f"{source} {what[:100]} cannot be used: {why}."


def _model_for(provider: Provider, environ: Mapping[str, str], session: Settings, saved: Settings) -> str:
    if provider.name == "zen" and environ.get(ZEN_MODEL):
        return environ[ZEN_MODEL]
    for settings in (session, saved):
        if ALIASES.get(settings.provider, settings.provider) == provider.name and settings.model:
            return settings.model
    return provider.model


def known(name: str) -> Provider:
    """The provider of this name; UsageError otherwise."""
    found = PROVIDERS.get(ALIASES.get(name, name))
    if found is None:
        raise UsageError(f"There is no provider '{name[:40]}'.", f"Known: {', '.join(PROVIDERS)}.")
    return found


def _explicit(provider: Provider, environ: Mapping[str, str], keys: Keys) -> Endpoint:
    endpoint = endpoint_of(provider, environ, keys)
    if endpoint is None:
        raise ProviderError(
            f"There is no key for {provider.name}.",
            f"Set {provider.key_name}, or: atomic keys set {provider.name}",
        )
    return endpoint


def endpoint_of(provider: Provider, environ: Mapping[str, str], keys: Keys) -> Endpoint | None:
    """Where and with which key to ask; None without a key. ProviderError for a key no header can hold."""
    key = (environ.get(provider.key_name) or keys().get(provider.name) or "").strip()
    if not key:
        return None
    if not (key.isascii() and key.isprintable()):
        raise ProviderError(
            f"The key for {provider.name} holds characters that no key has.",
            f"Set {provider.key_name} again, or: atomic keys set {provider.name}",
        )
    url = environ.get(provider.url_name) or provider.url
    if not url.startswith(("http://", "https://")):
        raise ProviderError(
            f"{provider.url_name} is not an http address.", f"Set it to something like {provider.url}."
        )
    return Endpoint(provider.name, provider.protocol, url, key, provider.key_name, provider.url_name)
