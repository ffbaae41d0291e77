from sapwood.dashboard.events import event


def test_each_line_is_one_of_data():
    assert event([b'{"event":"a"}', b'{"event":"b"}\r']) == b'data: {"event":"a"}\ndata: {"event":"b"}\n\n'


def test_what_is_no_object_is_left_out():
    assert event([b"", b"Sapwood is ready at", b"[1]"]) == b""


def test_no_line_can_end_early():
    assert event([b'{"event":"a"\r\rdata: {}\r}']) == b'data: {"event":"a"  data: {} }\n\n'
