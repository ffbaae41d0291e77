import pytest

from shared.model_card import ModelCard


@pytest.fixture
def tiny_card():
    return ModelCard(
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
