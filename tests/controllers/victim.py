"""A Slurm controller as a process of its own, which kills itself at a given point: `python -m ...victim`.

Arguments: bootstrap, prefix, point. A point is `before:<step>` or `after:<step>` (after the step's effect,
before it is on record), or `never`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from controllers.actuator import StepResult
from controllers.controller import Controller
from controllers.slurm.actuator import SlurmActuator
from controllers.slurm.client import SlurmClient
from controllers.slurm.settings import SlurmSettings
from tests.controllers.builders import CLUSTER
from tests.controllers.running import settings
from topics.control import Undertaking
from topics.derived import Action
from topics.events import Event


class Victim(SlurmActuator):
    point = "never"

    async def perform(self, step: str, event: Event[Action], undertaking: Undertaking) -> StepResult:
        if self.point == f"before:{step}":
            os.kill(os.getpid(), signal.SIGKILL)
        result = await super().perform(step, event, undertaking)
        if self.point == f"after:{step}":
            os.kill(os.getpid(), signal.SIGKILL)
        return result


def main() -> None:
    bootstrap, prefix, point = sys.argv[1:]
    actuator = Victim(SlurmClient(), SlurmSettings())
    actuator.point = point
    controller = Controller(actuator, settings(), cluster=CLUSTER, bootstrap=bootstrap, prefix=prefix)
    asyncio.run(controller.run())


if __name__ == "__main__":
    main()
