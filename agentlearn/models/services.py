"""Names of model services that pydantic-ai knows. A plug-in cannot take one of them."""

# fmt: off
SERVICES = frozenset((
    "alibaba", "anthropic", "azure", "azure-responses", "bedrock", "bedrock-mantle", "cerebras", "cohere",
    "crusoe", "deepseek", "elevenlabs", "fireworks", "gateway", "github", "github-copilot", "google",
    "google-cloud", "google-gla", "google-vertex", "grok", "groq", "heroku", "http", "https", "huggingface",
    "litellm", "meta", "mistral", "moonshotai", "nebius", "ollama", "openai", "openai-chat", "openai-chatgpt",
    "openai-codex", "openai-decisions", "openai-responses", "openrouter", "outlines", "ovhcloud", "sambanova",
    "sentence-transformers", "snowflake", "system-one", "test", "together", "typesafe", "vercel", "vllm",
    "voyageai", "xai", "zai",
))
# fmt: on
"""Prefixes of endpoints that name a service, most of which cost money."""


def is_service(prefix: str) -> bool:
    """Whether a prefix names a model service, also one that a newer pydantic-ai has added."""
    name = prefix.strip().casefold()
    if name in SERVICES or name.startswith("gateway/"):
        return True
    if name in _OURS:
        return False
    from pydantic_ai.providers import infer_provider_class

    try:
        infer_provider_class(name)
    except ValueError:
        return False
    except ImportError:  # a service whose client is not installed
        return True
    return True


_OURS = frozenset({"sim", "lab", "local"})
"""Prefixes of agentlearn's own services, which are known without importing pydantic-ai."""
