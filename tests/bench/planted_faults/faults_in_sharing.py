"""Faults in shared prompts, in the allocator's settings, and in tools that become text."""

from tests.bench.planted_faults.fault import planted

_SHARED = planted(
    "update/shared_prompts.py",
    "unit/train/test_shared_prompts.py",
    faults={
        "prompts are shared without being asked": ("if not arguments.share_prompts:", "if False:"),
        "prompts are shared where layers see a window": ("if set(layout.windows) != {FULL}:", "if False:"),
        "prompts are shared where attention takes no masks": (
            "if is_flash_attention_requested(core.config) else",
            "if False else",
        ),
        "a model that mixes shared rows is trained": (
            "or is_exact_when_shared(scorer, precision):",
            "or True:",
        ),
        "a model that takes no masks shares prompts": (
            "    except TypeError:  # the model takes no positions\n        return False",
            "    except TypeError:  # the model takes no positions\n        return True",
        ),
        "the check of sharing ends the training mode": ("            one.training = mode\n", "            pass\n"),
        "answers see each other": (
            "(own_BTT | prompt_BTT) & before_TT",
            "(own_BTT | (own_BTT | ~own_BTT)) & before_TT",
        ),
        "answers do not see their prompt": ("(own_BTT | prompt_BTT) & before_TT", "own_BTT & before_TT"),
        "answers see later tokens": ("(own_BTT | prompt_BTT) & before_TT", "own_BTT | prompt_BTT & before_TT"),
        "positions go on from the answer before": (
            "positions_BT[tree_number, own] = np.arange(start, length)",
            "positions_BT[tree_number, own] = np.arange(own.start, own.stop)",
        ),
        "the first token of an answer is predicted from the answer before": (
            "np.where(before < start, before, before - start + held)",
            "before - start + held",
        ),
        "rows of other prompts share": ("key = row.ids_T[:start].tobytes()", "key = bytes([start])"),
        "a prompt with its answers may be longer than the budget": (
            "if key in trees and sizes[key] + length - start <= most:",
            "if key in trees:",
        ),
        "no prompt is shared": ("if key in trees and sizes[key] + length - start <= most:", "if False:"),
    },
)

_TOOLS = planted(
    "engine/tools_in_words.py",
    "unit/train/test_chat_template.py",
    faults={
        "tools as text are not described": (
            "    return _with_description(made, tools) if tools else made",
            "    return made",
        ),
        "results in a row are several messages": ("        elif in_results:", "        elif False:"),
        "calls are left out of the text": (
            '"\\n".join(filter(None, [message.text, *map(_call, message.calls)]))',
            "message.text",
        ),
        "what the model wrote as text is written again": (
            "return replace(message, text=text, calls=())",
            'return replace(message, text=text, calls=(), verbatim="")',
        ),
    },
)

_ABILITIES = planted(
    "engine/template_abilities.py",
    "unit/train/test_chat_template.py",
    faults={
        "nobody is told that tools became text": ("if tools and self.tools_as_text:", "if False:"),
        "tools that cannot be text are accepted": (
            '(fold, tools_refused=problem if calls == _NO_TOOLS else f"it {calls}; {problem}")',
            "(fold, tools_as_text=calls)",
        ),
    },
)

_CALLS = planted(
    "engine/template_abilities.py",
    "unit/train/test_template_calls.py",
    faults={
        "a template's own call need not be read": ("== [(_NAME, _ARGUMENTS)]:", "!= [(_RESULT, _RESULT)]:"),
        "a template need not show its tools": ("if _problem(render, begun, (_TOOL,), _NAME):", "if False:"),
        "a template need not show results": ("(_TOOL,), _QUESTION, _RESULT, style=style)", "(), style=style)"),
        "templates are given calls in one way only": ("for style in STYLES:", "for style in STYLES[:1]:"),
    },
)

SHARING_FAULTS = (*_SHARED, *_TOOLS, *_ABILITIES, *_CALLS)
