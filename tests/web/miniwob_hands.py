"""Scripts that solve MiniWoB++ pages with the acts of a walk, without looking into the page's code.

Each script does one page for any seed: it reads the instruction and acts on refs of the last observation.
"""

import re
from dataclasses import dataclass

from agentlearn_web.browser.walk import Walk
from agentlearn_web.observation import ElementLine, PageObservation

LOOKS = 20


@dataclass
class Hands:
    """A walk and its last observation."""

    walk: Walk
    seen: PageObservation

    @property
    def instruction(self) -> str:
        """The page's instruction: its first text."""
        return next(line.text for line in self.seen.lines if line.text)

    def quoted(self) -> list[str]:
        """The quoted words of the instruction."""
        return re.findall(r'"([^"]*)"', self.instruction)

    def lines(self, role: str = "", *, name: str | None = None, text: str | None = None) -> list[ElementLine]:
        """Lines with a ref and that role, name and text, in order."""
        return [
            line
            for line in self.seen.lines
            if line.ref
            and (not role or line.role == role)
            and (name is None or line.name == name)
            and (text is None or line.text == text)
        ]

    async def click(self, line: ElementLine) -> None:
        """Click the line's element."""
        await self.took(await self.walk.click(line.ref))

    async def type(self, line: ElementLine, text: str) -> None:
        """Type into the line's element."""
        await self.took(await self.walk.type(line.ref, text))

    async def button(self, name: str) -> None:
        """Click the first button of that name."""
        await self.click(self.lines("button", name=name)[0])

    async def look(self) -> None:
        """Take a fresh view of the page."""
        await self.took(await self.walk.tabs())

    async def wait(self, role: str, name: str) -> ElementLine:
        """The first line with that role and name, as soon as it is there: some lists and sections open slowly."""
        for _ in range(LOOKS):
            if found := self.lines(role, name=name):
                return found[0]
            await self.look()
        raise AssertionError(f"no {role} {name!r} came up")

    async def took(self, seen: PageObservation) -> None:
        """Keep the observation of an act, which must have succeeded."""
        assert seen.status == "ok", (seen.status, seen.note)
        self.seen = seen
