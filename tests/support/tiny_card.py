"""The card of a model that there is not, small enough for any test."""

from shared.model_card import ModelCard

TINY_CARD = ModelCard(
    model_id="tiny",
    architecture="llama",
    max_model_len=256,
    vocab_size=1000,
    eos_token_ids=(2,),
    bos_token_id=1,
    add_bos=False,
    bos_token="<s>",
    eos_token="</s>",
    chat_template=None,
    source="nowhere",
)
