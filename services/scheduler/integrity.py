"""What must hold of the scheduler's state at all times, between two events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from services.scheduler.backlog import NOTHING, Load
from services.scheduler.executors import PLANS_IN_FLIGHT, Executor
from services.scheduler.ledger import REMEMBER_REQUESTS
from services.scheduler.request import Request
from shared.invariant import require

if TYPE_CHECKING:
    from services.scheduler.core import Core


def check(core: Core) -> None:
    """Raises BrokenInvariant with what is wrong."""
    waiting = list(core.requests.places.waiting())
    queued = set(waiting)
    require(len(queued) == len(waiting), "a request waits twice")
    for request in core.requests.ledger.open.values():
        _check_place(core, request, is_queued=request in queued)
        _check_stream(core, request)
    lanes = [lane for executor in core.executors.values() for lane in executor.lanes.values() if not lane.ended]
    placed = len(waiting) + len(lanes)
    require(
        placed == len(core.requests.ledger.open),
        f"{placed} requests wait or have a lane, {len(core.requests.ledger.open)} are open",
    )
    _check_backlog(core, waiting)
    _check_suspects(core)
    require(core.requests.ledger.remembered <= REMEMBER_REQUESTS, "too many ended requests are remembered")
    for executor in core.executors.values():
        _check_executor(executor)


def _check_backlog(core: Core, waiting: list[Request]) -> None:
    lanes = [lane for executor in core.executors.values() for lane in executor.running()]
    loads: dict[str, Load] = {}
    for request in waiting:
        loads[request.tenant] = loads.get(request.tenant, NOTHING).plus(request)
    backlog = core.requests.backlog
    require(backlog.waiting(lane.request for lane in lanes) == loads, "the backlog is not what waits")
    require(all(load.requests for load in backlog.open.values()), "a tenant is kept in the backlog for nothing")


def _check_suspects(core: Core) -> None:
    trials = core.requests.places.trials
    host = None if trials.host is None else trials.host.peer
    for key, request in core.requests.ledger.open.items():
        is_held, is_suspect = key in trials.held, trials.suspects.group(key) is not None
        require(is_suspect or not is_held, f"{key} is held, and no suspect")
        require(is_held or not is_suspect or request.executor == host, f"{key} is a suspect and not on trial")
    require(trials.held.keys() <= core.requests.ledger.open.keys(), "a request is held that is over")


def _check_place(core: Core, request: Request, *, is_queued: bool) -> None:
    lane = request.lane
    require(is_queued == (lane is None), f"{request.key} waits and has a lane, or neither")
    if lane is not None:
        executor = core.executors.get(lane.executor)
        require(request.executor == lane.executor, f"{request.key} is said to be elsewhere than its lane")
        require(executor is not None, f"{request.key} has a lane on an executor that is gone")
        require(executor is not None and executor.lanes.get(lane.number) is lane, f"{request.key} has a lost lane")
        require(not lane.ended, f"{request.key} is open on a lane that has ended")
        require(request.detokenizer is not None, f"{request.key} is admitted, and nobody streams it")


def _check_stream(core: Core, request: Request) -> None:
    if request.detokenizer is not None:
        streamed = core.requests.streams.requests(request.detokenizer)
        require(request in streamed, f"{request.key} is missing among its detokenizer's requests")


def _check_executor(executor: Executor) -> None:
    flights = executor.flights
    require(len(flights) <= PLANS_IN_FLIGHT, f"{len(flights)} plans are in flight")
    require(all(flight.reserved_tokens >= 0 for flight in flights), "a plan reserves less than nothing")
    running = executor.running_requests
    require(running <= executor.max_running, f"{running} requests run")
    require(all(request.executor == executor.peer for request in executor.queued), "a request waits elsewhere")
    held = executor.running_requests + executor.waiting_requests
    require(executor.sketch.requests == held, "the sketch has other requests than the executor")
    executor.index.check_integrity()
    executor.parking.check_integrity()
    in_line = (*executor.waiting, *executor.promises, *(lane.request for lane in executor.running()))
    require(all(request.may_run_at(executor.peer) for request in in_line), "a request is not held back by its grammar")
    seqs = {flight.seq for flight in flights}
    for number, lane in executor.lanes.items():
        require(number == lane.number, "a lane is filed under another number")
        if not lane.ended:
            require(all(slice_.seq in seqs for slice_ in lane.in_flight), "a lane awaits a plan that is not in flight")
            require(bool(lane.in_flight) or lane.settled, "a lane runs, and has never had a slice")
