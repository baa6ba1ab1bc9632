"""Mathematics as one types it."""

import pytest

from agentlearn.answers.latex import plain_mathematics


@pytest.mark.parametrize(("text", "plain"), [
    (r"What is $\frac{a}{b} \cdot \sqrt{2}$ when $n$ is $405!$?", "What is a/b · √2 when n is 405!?"),
    ("She has $5 and he has $7, or US$5-$10.", "She has $5 and he has $7, or US$5-$10."),
    (r"$\dfrac12 + \sqrt[3]{x+1} \leq \pi r^{2}$ and \(x_{n+1}\)", "1/2 + 3√(x+1) ≤ π r^2 and x_(n+1)"),
    (r"$\left( \frac{\sqrt{3}}{2} \right)$, $\{1,\;2\}$, $x \in \mathbb{N}$", "( (√3)/2 ), {1, 2}, x ∈ N"),
    (r"so \boxed{\frac{3}{4}}, 2\pi \le 7, \left(\frac12\right), 90^\circ", "so 3/4, 2π ≤ 7, (1/2), 90°"),
    (r"$$\begin{pmatrix}1 & 2 \\ 3 & 4\end{pmatrix}$$", "1  2; 3  4"),
    (r"Let $\mathcal{B} = \{1, \cdots, 9\}$", "Let B = {1, …, 9}"),
    (r"C:\temp\pi, $HOME/$USER and a \n", r"C:\temp\pi, $HOME/$USER and a \n"),
    (r"$$\sin\theta = 50\%$$ and $\overline{AB}$, for \$5", r"sinθ = 50% and overline(AB), for \$5"),
])  # fmt: skip
def test_mathematics_loses_its_dollars_and_commands(text: str, plain: str) -> None:
    assert plain_mathematics(text) == plain
