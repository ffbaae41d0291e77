from scripts.bench.cache.program import FIRST_REHEARSED_ID, Prompt, advance, one_request, rehearse


def two_turns():
    [first] = yield [Prompt([1, 2], 2)]
    second, third = yield [Prompt([1, 2, *first, 3], 1), Prompt([1, 2, *first, 4], 1)]
    assert second != third


def test_a_rehearsal_plays_every_turn_with_outputs_of_the_right_length():
    a, b = FIRST_REHEARSED_ID, FIRST_REHEARSED_ID + 1
    trace = rehearse([two_turns(), one_request([9], 3)])
    assert [record.prompt_ids for record in trace] == [(1, 2), (1, 2, a, b, 3), (1, 2, a, b, 4), (9,)]
    assert [len(record.output_ids) for record in trace] == [2, 1, 1, 3]
    outputs = [token for record in trace for token in record.output_ids]
    assert len(set(outputs)) == len(outputs)


def test_a_program_that_has_ended_has_no_prompts():
    program = two_turns()
    next(program)
    assert len(advance(program, [[7, 8]])) == 2
    assert advance(program, [[5], [6]]) == []
