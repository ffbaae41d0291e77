from hypothesis import given
from hypothesis import strategies as st

from services.gateway.response_store import ResponseStore

TENANTS = st.sampled_from(["a", "b"])
NAMES = st.sampled_from([f"resp_{number}" for number in range(6)])
STEPS = st.lists(st.tuples(st.sampled_from(["keep", "get", "delete"]), TENANTS, NAMES, st.integers(0, 60)), max_size=40)


def response(name, size=0):
    return {"id": name, "output": ["x" * size]}


@given(STEPS)
def test_it_keeps_the_most_recently_used_of_each_tenant(steps):
    store = ResponseStore(max_responses=3, max_bytes=150)
    recent = {"a": [], "b": []}  # names, the most recently used last
    for step, tenant, name, size in steps:
        names = recent[tenant]
        there = name in names
        match step:
            case "keep" if not there:
                store.keep(tenant, response(name, size), [])
                names.append(name)
                names[:] = [each for each in names if store.get(tenant, each) is not None]
            case "get":
                assert (store.get(tenant, name) is not None) == there
                names[:] = [each for each in names if each != name] + [name] * there
            case "delete" if there:
                store.delete(tenant, name)
                names.remove(name)
        store.check_integrity()


def test_the_least_recently_used_goes_first():
    store = ResponseStore(max_responses=2, max_bytes=1000)
    for name in ("first", "second"):
        store.keep("a", response(name), [])
    store.get("a", "first")
    store.keep("a", response("third"), [])
    assert [store.get("a", name) is not None for name in ("first", "second", "third")] == [True, False, True]


def test_bytes_count_too_and_so_does_the_input():
    store = ResponseStore(max_responses=9, max_bytes=130)
    store.keep("a", response("first"), [])
    store.keep("a", response("second"), [{"text": "x" * 60}])
    assert store.get("a", "first") is None
    assert store.get("a", "second") is not None


def test_what_is_larger_than_all_room_is_not_kept():
    store = ResponseStore(max_responses=9, max_bytes=100)
    store.keep("a", response("large", 200), [])
    assert store.get("a", "large") is None
    store.check_integrity()


def test_tenants_do_not_take_each_others_room():
    store = ResponseStore(max_responses=1, max_bytes=100)
    store.keep("a", response("of a"), [])
    store.keep("b", response("of b"), [])
    assert store.get("a", "of a") is not None
    assert store.get("b", "of a") is None
