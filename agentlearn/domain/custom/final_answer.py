"""The answer in a reply, under the name that scripts of other people use."""

from agentlearn.answers.reply import final_answer_in

__all__ = ["final_answer_in"]
