"""A model's tokenizer without its engine, for engines that run elsewhere."""

from afterword.config.model import ECHO, ModelConfig
from afterword.errors import ConfigurationError
from afterword.loading.embedded import model_file
from afterword.loading.vllm import load_vllm_tokenizer
from afterword.tokens import ByteTokenizer, Tokenizer


def load_tokenizer(model: ModelConfig) -> Tokenizer:
    """The tokenizer of a configured model. Raises `ConfigurationError` if it has none, or its file cannot be read."""
    source = model.path if model.tokenizer is None else model.tokenizer
    if source is None:
        raise ConfigurationError(f"The model {model.name!r} has no tokenizer: configure the path of one.")
    if source == ECHO:
        return ByteTokenizer()
    if model.engine == "vllm" and model.tokenizer is None:
        return load_vllm_tokenizer(model)
    # Here and not above: the library behind it takes a second to load and is not needed to serve other models.
    from afterword.engine.llama.binding import LlamaModel
    from afterword.engine.llama.vocabulary import Vocabulary
    from afterword.engine.worker.process import check_vocabulary

    file = model_file(source)
    check_vocabulary(file)
    return Vocabulary(LlamaModel(file, vocab_only=True))
