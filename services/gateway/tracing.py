"""Whether the traces of requests are sent anywhere: decided once, at the start.

The library that sends them is an extra, and is imported only where it is needed.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from services.gateway.trace import NoTracing, Tracing
from shared.config import ConfigError, TracingConfig

KEY = "tracing.endpoint (--otlp-traces-endpoint)"
PATH = "/v1/traces"  # by the protocol, where only a host is named


def open_tracing(settings: TracingConfig, service: str, model: str) -> Tracing:
    """Raises ConfigError for an endpoint that is none, and where the extra is not installed."""
    if settings.endpoint is None:
        return NoTracing()
    url = endpoint_url(settings.endpoint)
    try:
        from services.gateway import otlp
    except ModuleNotFoundError as error:
        raise ConfigError(f"{KEY} needs {error.name}; install it with: pip install '.[server,otel]'") from error
    return otlp.OtlpTracing(otlp.exporter(url), service, model, settings.sample)


def endpoint_url(endpoint: str) -> str:
    """Raises ConfigError. Credentials would be seen in logs."""
    try:
        url = urlsplit(endpoint)
        is_one = url.scheme in ("http", "https") and url.hostname and url.port != 0
    except ValueError:
        is_one = False
    if not is_one or url.username is not None or url.query or url.fragment:
        raise ConfigError(
            f"{KEY}: expected http://HOST:PORT{PATH} of a collector that takes OTLP over HTTP; what it wants to be "
            "told beside it goes into OTEL_EXPORTER_OTLP_HEADERS"
        )
    return url._replace(path=PATH if url.path in ("", "/") else url.path).geturl()
