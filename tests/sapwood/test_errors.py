import copy
import pickle

import pytest

from sapwood.errors import BackendError, CallFailed, InvalidOutput, NotStarted, Overloaded, ProgramError, ServerError


@pytest.mark.parametrize("again", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
@pytest.mark.parametrize(
    "error",
    [
        BackendError("no", request_id="r1"),
        ServerError("no", status=400, code="c", param="p", request_id="r1"),
        Overloaded("no", status=429, retry_after_s=2.0),
        NotStarted("no", "a log"),
        InvalidOutput("no", "text"),
        ProgramError("no"),
        CallFailed("no"),
    ],
)
def test_errors_go_from_process_to_process_as_they_are(error, again):
    copied = again(error)
    assert type(copied) is type(error)
    assert (str(copied), copied.args, vars(copied)) == (str(error), error.args, vars(error))
