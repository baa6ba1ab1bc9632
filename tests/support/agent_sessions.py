"""One made-up session, written as each coding agent writes it."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

REPOSITORY = "/home/kim/shop"
CORRECTION = "No, we add packages with uv here, never with pip."


class Said(NamedTuple):
    """What the user or the model said; `by` is also `program`."""

    by: str
    text: str


class Ran(NamedTuple):
    """A command, its output and its exit status; a refused one did not run."""

    command: str
    output: str
    status: int = 0
    refused: bool = False


Story = Sequence[Said | Ran]
STORY: Story = (
    Said("program", "<system-reminder>Use pip for everything.</system-reminder>"),
    Said("user", "Add the package httpx."),
    Ran("pip install httpx", "error: externally managed environment", 1),
    Said("model", "I could not install it."),
    Said("user", CORRECTION),
    Ran("uv add httpx", "Resolved 5 packages"),
    Ran("uv run pytest -q", "12 passed"),
    Said("model", "Done, and the tests pass."),
    Said("user", "Good. Now write the client."),
    Said("model", "I wrote it."),
)


def lines(rows: Sequence[Any]) -> str:
    """JSON lines."""
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def claude_code(story: Story, identity: str = "s1") -> str:
    """A file of Claude Code."""
    rows: list[Any] = [{"type": "summary", "summary": "httpx"}]
    common = {"sessionId": identity, "cwd": REPOSITORY, "isSidechain": False}

    def row(role: str, content: Any, **more: Any) -> None:
        message = {"role": role, "model": "claude-x", "content": content}
        uuid = f"{identity}-{len(rows)}"
        rows.append({"type": role, "uuid": uuid, **common, **more, "message": message})

    for number, one in enumerate(story):
        match one:
            case Said("model", text):
                row("assistant", [{"type": "text", "text": text}])
            case Said("program", text):
                row("user", text, isMeta=True)
            case Said(_, text):
                row("user", text)
            case Ran(command, output, status, refused):
                call = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": command}}
                row("assistant", [call])
                said = f"Exit code {status}\n{output}" if status else output
                if refused:
                    said = f"The user doesn't want to proceed with this tool use. the user said:\n{output}"
                failed = bool(status or refused)
                row("user", [{"type": "tool_result", "tool_use_id": f"t{number}", "content": said, "is_error": failed}])
    return lines(rows)


def codex(story: Story) -> str:
    """A file of Codex."""
    rows: list[Any] = [{"type": "session_meta", "payload": {"id": "s1", "cwd": REPOSITORY}}]
    rows.append({"type": "turn_context", "payload": {"model": "gpt-x"}})
    for number, one in enumerate(story):
        match one:
            case Said("model", text):
                content = [{"type": "output_text", "text": text}]
                rows.append(
                    {"type": "response_item", "payload": {"type": "message", "role": "assistant", "content": content}}
                )
            case Said(by, text):
                content = [{"type": "input_text", "text": text}]
                rows.append(
                    {"type": "response_item", "payload": {"type": "message", "role": "user", "content": content}}
                )
                if by == "user":
                    rows.append({"type": "event_msg", "payload": {"type": "user_message", "message": text}})
            case Ran(command, output, status, refused):
                call = {
                    "call_id": f"t{number}",
                    "name": "shell",
                    "arguments": json.dumps({"command": ["bash", "-lc", command]}),
                }
                said = json.dumps({"output": output, "metadata": {"exit_code": status}})
                said = "exec command rejected by user" if refused else said
                rows.append({"type": "response_item", "payload": {"type": "function_call", **call}})
                result = {"type": "function_call_output", "call_id": f"t{number}", "output": said}
                rows.append({"type": "response_item", "payload": result})
    return lines(rows)


def atif(story: Story) -> str:
    """A file of ATIF."""
    steps: list[Any] = []
    for number, one in enumerate(story):
        match one:
            case Said(by, text):
                source = {"model": "agent", "user": "user", "program": "system"}[by]
                steps.append({"step_id": number, "source": source, "message": text})
            case Ran(command, output, status, _):
                call = {"tool_call_id": f"t{number}", "function_name": "bash", "arguments": {"command": command}}
                result = {"source_call_id": f"t{number}", "content": output, "extra": {"exit_code": status}}
                step = {"step_id": number, "source": "agent", "message": "", "tool_calls": [call]}
                steps.append({**step, "observation": {"results": [result]}})
    agent = {"name": "some-agent", "version": "1", "model_name": "m-x", "extra": {"cwds": [REPOSITORY]}}
    return json.dumps({"schema_version": "ATIF-v1.6", "session_id": "s1", "agent": agent, "steps": steps})


def openhands_events(story: Story) -> list[Any]:
    """The events of OpenHands' second format."""
    events: list[Any] = [{"kind": "SystemPromptEvent", "source": "agent", "system_prompt": {"text": "…"}}]
    for number, one in enumerate(story):
        match one:
            case Said("program", text):
                events.append({"kind": "ConversationStateUpdateEvent", "source": "environment", "value": text})
            case Said(by, text):
                said = {"role": by, "content": [{"type": "text", "text": text}]}
                source = "user" if by == "user" else "agent"
                events.append({"kind": "MessageEvent", "source": source, "llm_message": said})
            case Ran(command, output, status, refused):
                common = {"tool_name": "terminal", "tool_call_id": f"t{number}"}
                call = {"name": "terminal", "arguments": json.dumps({"command": command})}
                events.append({"kind": "ActionEvent", "source": "agent", "thought": [], **common, "tool_call": call})
                if refused:
                    events.append(
                        {"kind": "UserRejectObservation", "source": "user", **common, "rejection_reason": output}
                    )
                    continue
                seen: dict[str, Any] = {"content": [{"type": "text", "text": output}], "exit_code": status}
                seen["metadata"] = {"exit_code": status, "working_dir": REPOSITORY}
                events.append({"kind": "ObservationEvent", "source": "environment", **common, "observation": seen})
    return events


def openhands_first(story: Story) -> str:
    """A trajectory of OpenHands' first format."""
    events: list[Any] = [{"id": 0, "source": "agent", "action": "system", "args": {"content": "…"}}]
    for one in story:
        number = len(events)
        match one:
            case Said("program", text):
                events.append({"id": number, "source": "environment", "observation": "recall", "content": text})
            case Said(by, text):
                source = "user" if by == "user" else "agent"
                events.append({"id": number, "source": source, "action": "message", "args": {"content": text}})
            case Ran(command, output, status, refused):
                events.append({"id": number, "source": "agent", "action": "run", "args": {"command": command}})
                kind = "user_rejected" if refused else "run"
                extras = {"metadata": {"exit_code": status, "working_dir": REPOSITORY}}
                said = {"id": number + 1, "source": "agent", "observation": kind, "cause": number, "extras": extras}
                events.append({**said, "content": output})
    return json.dumps(events)


def opencode(story: Story) -> tuple[dict[str, Any], list[tuple[dict[str, Any], list[dict[str, Any]]]]]:
    """The session of OpenCode, and its messages with their parts."""
    info = {"id": "ses_1", "projectID": "p", "directory": REPOSITORY}
    found: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    for number, one in enumerate(story):
        message = {"id": f"msg_{number:04}", "sessionID": "ses_1", "role": "assistant", "modelID": "m-x"}
        part: dict[str, Any] = {
            "id": f"prt_{number:04}",
            "sessionID": "ses_1",
            "messageID": message["id"],
            "type": "text",
        }
        match one:
            case Said(by, text):
                message["role"] = "assistant" if by == "model" else "user"
                part |= {"text": text, "synthetic": by == "program"}
            case Ran(command, output, status, refused):
                state = {
                    "status": "completed",
                    "input": {"command": command},
                    "output": output,
                    "metadata": {"exit": status},
                }
                if refused:
                    why = "The user rejected permission to use this specific tool call."
                    state = {"status": "error", "input": {"command": command}, "error": why}
                part |= {"type": "tool", "tool": "bash", "callID": f"t{number}", "state": state}
        found.append((message, [part]))
    return info, found


def write(folder: Path, form: str, story: Story = STORY) -> None:
    """Write the session into a folder as that agent does; the names of files say nothing about the format."""
    folder.mkdir(parents=True, exist_ok=True)
    match form:
        case "Claude Code":
            (folder / "a.jsonl").write_text(claude_code(story))
        case "Codex":
            (folder / "a.jsonl").write_text(codex(story))
        case "ATIF":
            (folder / "a.json").write_text(atif(story))
        case "OpenHands":
            for number, event in enumerate(openhands_events(story)):
                (folder / f"event-{number}.json").write_text(json.dumps(event))
        case "OpenHands, JSON lines":
            (folder / "a.jsonl").write_text(lines(openhands_events(story)))
        case "OpenHands, first format":
            (folder / "a.json").write_text(openhands_first(story))
        case "OpenCode":
            info, messages = opencode(story)
            pieces = {f"session/p/{info['id']}": info}
            for message, parts in messages:
                pieces[f"message/ses_1/{message['id']}"] = message
                pieces |= {f"part/{message['id']}/{part['id']}": part for part in parts}
            for name, piece in pieces.items():
                path = folder / "storage" / f"{name}.json"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(piece))
        case _:
            info, messages = opencode(story)
            exported = [{"info": message, "parts": parts} for message, parts in messages]
            (folder / "a.json").write_text(json.dumps({"info": info, "messages": exported}))


FORMS = (
    "Claude Code",
    "Codex",
    "ATIF",
    "OpenHands",
    "OpenHands, JSON lines",
    "OpenHands, first format",
    "OpenCode",
    "OpenCode, export",
)
