"""Reading an answer out of a reply, and deciding whether two answers say the same.

What others use:
- `thoughts.split_thoughts`, `reply.final_answer_in`, `reply.boxed`, `reply.single_choice`: the answer in a reply.
- `answer_text.normalised`, `answer_text.contains`, `numbers.single_number`: the rewards for tasks of one's own.
- `matching.match_answers`, `matching.answer_match_key`: answers in a few words to a question about pages.
- `mathematics.parse_answer`, `form_comparison.FormComparator`, `workers.open_workers`: answers of mathematics, compared
  exactly or by algebra in a process of its own, the only place that imports mpmath and sympy.
- `numbers`, `units`, `times`: number words, units, times and dates; the search for leaked answers reads number words.
"""
