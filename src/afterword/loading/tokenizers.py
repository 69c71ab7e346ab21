"""A model's tokenizer without its engine, for who runs the engine elsewhere."""

from afterword.defaults import ECHO
from afterword.loading.embedded import model_file
from afterword.model_config import ModelConfig
from afterword.tokens import ByteTokenizer, Tokenizer


def load_tokenizer(model: ModelConfig) -> Tokenizer:
    """The tokenizer of a configured model. Raises `ConfigurationError` if its file cannot be read."""
    if model.engine == ECHO:
        return ByteTokenizer()
    # Here and not above: the library behind it takes a second to load.
    from afterword.engine.llama.binding import LlamaModel
    from afterword.engine.llama.vocabulary import Vocabulary

    return Vocabulary(LlamaModel(model_file(model.path), vocab_only=True))
