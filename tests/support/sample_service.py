"""A service that does nothing but what its first name part says.

steady · hangs · broken · misconfigured · unloadable · failing · crashing · slow (to stop) · loading (for ever) ·
compiling (for ever) · forgetful (starts once)
"""

import asyncio
import os
from pathlib import Path

from shared import wire
from shared.config import ConfigError
from shared.service import EXIT_BROKEN, main


class SampleService:
    def __init__(self, behaviour, context):
        self.behaviour = behaviour
        self.context = context

    async def start(self):
        if self.behaviour == "misconfigured":
            raise ConfigError("there is no such model")
        if self.behaviour == "unloadable":
            os._exit(EXIT_BROKEN)
        if self.behaviour == "failing":
            self.context.fail("the weights\nare torn")
        if self.behaviour == "crashing":
            raise ValueError("the weights\nare torn")
        if self.behaviour == "compiling":
            self.context.compiling()
        if self.behaviour in ("loading", "compiling"):
            await asyncio.sleep(60)
        if self.behaviour == "forgetful":
            mark = Path(os.environ["SAMPLE_SERVICE_MARK"])
            if mark.exists():
                raise ConfigError("not enough memory")
            mark.touch()

    async def stop(self):
        if self.behaviour == "slow":
            await asyncio.sleep(60)

    def tick(self):
        if self.behaviour == "broken":
            raise AssertionError("an invariant does not hold")

    async def refresh(self):
        pass

    def progress(self):
        return wire.Progress(step_age_s=1e9 if self.behaviour == "hangs" else 0.0)


if __name__ == "__main__":
    main("executor", lambda context: SampleService(context.name.partition("-")[0], context))
