r"""Pairs of answer and expected answer, as competitions and models write them, judged through real workers.

A line holds both with ` @ ` between them. `undecided` is right where conventions differ, and never where they do not.
"""

import asyncio
from functools import cache

import pytest

from agentlearn.answers.algebra import NumericAlgebra
from agentlearn.answers.verifier import compare_texts
from agentlearn.answers.workers import open_workers
from agentlearn_math.verify import judge, judge_exactly

CORRECT = {
    "integers": r"""
        204 @ 204
        033 @ 33
        33 @ 033
        204.0 @ 204
        +7 @ 7
        -5 @ −5
        –12 @ -12
        1,234 @ 1234
        1{,}234 @ 1234
        1\,234 @ 1234
        1\!234 @ 1234
        1,\!234,\!567 @ 1234567
        1 234 567 @ 1234567
        1,234 @ 1,234
        $12$ @ 12
        \(7\) @ 7
        \[7\] @ 7
        18. @ 18
        {5} @ 5
        (5) @ 5
        \text{12} @ 12
        \mathbf{12} @ 12
        \boldsymbol{12} @ 12
        \displaystyle 12 @ 12
        12\quad @ 12
        123456789012345678901234567890 @ 123456789012345678901234567890.0
        10^9+7 @ 1000000007
        10^{9}+7 @ 1,000,000,007
        2^{10} @ 1024
        2^10 @ 1024
        5! @ 120
        5!! @ 15
        \binom{10}{3} @ 120
        \dbinom{10}{3} @ 120
        \gcd(12,18) @ 6
        \operatorname{lcm}(4,6) @ 12
        \left\lfloor \frac{7}{2}\right\rfloor @ 3
        \lceil 3.2 \rceil @ 4
        |-7| @ 7
        2 \cdot 3 @ 6
        2 \times 3 @ 6
        12 \div 4 @ 3
        100! / 98! @ 9900
        \frac{2006!}{2004!} @ 4022030
        2^{100} @ 1267650600228229401496703205376
        1.5 \times 10^{3} @ 1500
        3\times10^5 @ 300000
        5 million @ 5000000
        5\text{ million} @ 5,000,000
        2 dozen @ 24
        1e5 @ 100000
        1st @ 1
        \text{2nd} @ 2
    """,
    "fractions and decimals": r"""
        1/2 @ 0.5
        \frac{1}{2} @ .5
        \dfrac12 @ 1/2
        \tfrac{1}{2} @ \frac12
        \frac 1 2 @ 0.5
        \frac1{20} @ 0.05
        -\frac{3}{4} @ -0.75
        \frac{-3}{4} @ -\frac{3}{4}
        \frac{3}{-4} @ -\frac{3}{4}
        \frac{1.5}{2} @ 3/4
        2/4 @ 1/2
        ½ @ 0.5
        2\frac{1}{3} @ \frac{7}{3}
        2 1/3 @ 7/3
        -2\frac{1}{3} @ -\frac{7}{3}
        2\frac12 @ 2.5
        0.\overline{3} @ \frac13
        0.1\overline{6} @ 1/6
        0.(3) @ 1/3
        1.\overline{09} @ \frac{12}{11}
        0.\bar{3} @ 1/3
        \frac{\frac12}{3} @ \frac16
        \left(\frac{1}{2}\right)^3 @ \frac18
        2^{-3} @ \frac{1}{8}
        1-\frac{1}{4} @ \frac34
        8^{1/3} @ 2
        4^{3/2} @ 8
        \sqrt{\frac{9}{4}} @ 1.5
        \sqrt[3]{-8} @ -2
        \frac{1}{2004!} @ \frac{1}{2004!}
        \frac{100}{3} @ 33\frac{1}{3}
    """,
    "percent, money, units": r"""
        50\% @ 50\%
        50% @ 50\%
        50\% @ 0.5
        50\% @ \frac12
        12.5\% @ \frac{1}{8}
        50\text{ percent} @ 50\%
        50 @ 50\%
        50\% @ 50
        \$18 @ 18
        \$18.50 @ 18.5
        \$1{,}000 @ 1000
        18 dollars @ 18
        18€ @ €18
        18 dollars @ \$18
        £18 @ 18
        18\text{ dollars} @ \$18
        \$5 million @ 5000000
        12\text{ cm} @ 12
        12 cm @ 12
        12\text{ cm}^2 @ 12
        12\text{ cm}^2 @ 12 cm^2
        12\mathrm{~cm} @ 12\text{ cm}
        12\text{ centimeters} @ 12\text{ cm}
        12\text{ square meters} @ 12\text{ m}^2
        \frac{1}{2}\text{ cm} @ 0.5
        3 hours @ 3
        3\text{ hours} @ 3 \text{ hrs}
        1\text{ m} @ 100\text{ cm}
        30\text{ minutes} @ \frac12\text{ hour}
        \$1.50 @ 150\text{ cents}
        9 m^2 @ 9\text{ m}^2
        7 h @ 7 hours
        90^\circ @ 90
        90^{\circ} @ 90^\circ
        90° @ 90
        90 degrees @ 90^\circ
        90^\circ @ \frac{\pi}{2}
        45^\circ @ \pi/4
        x = 30^\circ @ 30
        12\text{ apples} @ 12
        6\pi\text{ cm}^2 @ 6\pi
        2\sqrt{3}\text{ units} @ 2\sqrt3
    """,
    "radicals": r"""
        2\sqrt{3} @ \sqrt{12}
        2\sqrt3 @ \sqrt{12}
        4\sqrt(2) @ 4\sqrt{2}
        2sqrt(3) @ 2\sqrt{3}
        2√3 @ 2\sqrt{3}
        \frac{\sqrt{2}}{2} @ \frac{1}{\sqrt{2}}
        \frac{-1+\sqrt{5}}{2} @ \frac{2}{1+\sqrt{5}}
        \frac{1+\sqrt5}{2} @ \frac{\sqrt{5}+1}{2}
        \sqrt{3+2\sqrt{2}} @ 1+\sqrt2
        \sqrt[3]{54} @ 3\sqrt[3]{2}
        2^{1/2} @ \sqrt{2}
        \sqrt{2}\cdot\sqrt{3} @ \sqrt{6}
        (\sqrt{2}+1)^2 @ 3+2\sqrt2
        \sqrt{50}-\sqrt{8} @ 3\sqrt2
        \frac{\sqrt3}{3} @ \frac{1}{\sqrt{3}}
        \sqrt{2}^2 @ 2
        5\sqrt{2}-7 @ (\sqrt2-1)^3
    """,
    "logs, trig, constants": r"""
        \log_2 8 @ 3
        \log_{10} 1000 @ 3
        \lg 1000 @ 3
        \ln e^2 @ 2
        \ln(4) @ 2\ln 2
        \ln 6 @ \ln 2+\ln 3
        \log_2 3 @ \frac{\ln 3}{\ln 2}
        \log_4 9 @ \log_2 3
        \frac{\log 8}{\log 2} @ 3
        \sin 30^\circ @ \frac12
        \cos 30^\circ @ \frac{\sqrt3}{2}
        \sin\frac{\pi}{6} @ 0.5
        \sin \pi @ 0
        \tan(\pi/4) @ 1
        \arctan 1 @ \frac{\pi}{4}
        \sin^{-1} 1 @ \frac\pi2
        \cos(2\pi/5) @ \frac{\sqrt5-1}{4}
        2\cos 60^\circ @ 1
        e^{i\pi} @ -1
        e^{i\pi}+1 @ 0
        1 - \frac{1}{\mathrm{e}} @ \frac{e-1}{e}
        e @ \exp(1)
        \pi @ 2\cdot\frac{\pi}{2}
        π @ \pi
        36\pi @ \pi\cdot 36
        \frac{4}{3}\pi @ \frac{4\pi}{3}
        4pi @ 4\pi
        \arcsin(1/2) @ \frac{\pi}{6}
        \arccos 0 @ \frac\pi2
        \sec 60^\circ @ 2
        \cot(\pi/4) @ 1
        \sqrt{\pi}^2 @ \pi
        \lfloor \pi \rfloor @ 3
        \lceil e \rceil @ 3
        \max(\pi,e) @ \pi
        \arctan 2+\arctan 3 @ \frac{3\pi}{4}
        \sqrt{2}^{\sqrt{2}} @ 2^{\frac{\sqrt2}{2}}
        \log_{\sqrt{2}} 4 @ 4
        \sinh 0 @ 0
        \cosh 1 @ \frac{e+e^{-1}}{2}
        \infty @ +\infty
        -\infty @ -\infty
    """,
    "complex": r"""
        3+4i @ 4i+3
        (1+i)^2 @ 2i
        i^2 @ -1
        \frac{1}{i} @ -i
        \sqrt{-4} @ 2i
        |3+4i| @ 5
        e^{i\pi/2} @ i
        \frac{1}{2}+\frac{\sqrt3}{2}i @ e^{i\pi/3}
        \frac{1+i\sqrt{3}}{2} @ \cos 60^\circ + i \sin 60^\circ
        3 - 2\mathrm{i} @ 3-2i
    """,
    "sums, integrals, limits": r"""
        \sum_{k=1}^{9} k @ 45
        \sum_{k=1}^{10} k^2 @ 385
        \prod_{k=1}^{5} k @ 120
        \sum_{k=0}^{\infty} \frac{1}{2^k} @ 2
        \int_0^1 x^2 \, dx @ \frac13
        \lim_{x\to 0} \frac{\sin x}{x} @ 1
        \sum_{k=1}^n k @ \frac{n(n+1)}{2}
        \sum_{n=1}^{\infty} \frac{1}{n^2} @ \frac{\pi^2}{6}
        \lim_{n\to\infty} \left(1+\frac1n\right)^n @ e
        \lim_{x\to 0^-} \frac{|x|}{x} @ -1
        \int_{0}^{\pi} \sin x\,dx @ 2
        \int_{-\infty}^{\infty} e^{-x^2}dx @ \sqrt\pi
        \int_1^e \ln x\, dx @ 1
        \sum_{k=1}^{3} \sqrt{k} @ 1+\sqrt2+\sqrt3
        \prod_{k=1}^{3} \sqrt{k} @ \sqrt6
        \int_0^a x dx @ \frac{a^2}{2}
        \sum_{k=0}^{\infty} \frac{1}{k!} @ e
    """,
    "open expressions": r"""
        x^2+2x+1 @ (x+1)^2
        (x-1)(x+1) @ x^2-1
        \frac{x^2-1}{x-1} @ x+1
        \sin^2 x+\cos^2 x @ 1
        \sin 2x @ 2\sin x\cos x
        (x+y+z+1)^{10} @ (1+x+y+z)^{10}
        ab @ ba
        2xy @ 2yx
        xyz @ zyx
        2\pi r @ 2r\pi
        \frac{a}{b}c @ \frac{ac}{b}
        \frac{x}{2} @ 0.5x
        x/2 @ \frac12 x
        n! @ n\cdot(n-1)!
        2^{n+1} @ 2\cdot 2^n
        \frac{n(n+1)}{2} @ \binom{n+1}{2}
        (-1)^{n} @ (-1)^{n+2}
        x_1+x_2 @ x_{2}+x_{1}
        |x-1| @ |1-x|
        x^{1/3} @ \sqrt[3]{x}
        (x^2)^{1/2} @ |x|
        x-x+5 @ 5
        0^x @ 0
        \alpha+\beta @ \beta+\alpha
        e^{x+1} @ e\cdot e^x
        \ln(xy) @ \ln(yx)
        -(x-2) @ 2-x
        f(x)=x^2+1 @ x^2+1
        y=2x+3 @ 2x+3
        C(n) @ C(n)
        \frac{1}{1-x} @ -\frac{1}{x-1}
        a^2-b^2 @ (a+b)(a-b)
    """,
    "equations": r"""
        x=5 @ 5
        5 @ x=5
        x = 5 @ x=5
        x=\frac{1}{2} @ 0.5
        y=2x+3 @ y = 3+2x
        y=2x+3 @ 2x-y+3=0
        3x+4y+14=0 @ 6x+8y+28=0
        (x-2)^2+(y+1)^2=9 @ x^2+y^2-4x+2y=4
        x^2+y^2=1 @ y^2=1-x^2
        f(x)=x^2 @ f(x)=x\cdot x
        (x,y)=(1,2) @ (1,2)
        2e-3 @ -3+2e
        1.0e-3 @ 0.001
        x^2+y^2=2x @ (x-1)^2+y^2=1
        2x=4 @ x=2
        a=1, b=2 @ b=2, a=1
        x=1 \text{ or } x=2 @ 1,2
        x=1, 2 @ x=2 or x=1
        x=\pm 2 @ 2,-2
        \angle A=30^\circ @ 30
        x=1,y=2 @ (1,2)
    """,
    "sets, lists, tuples": r"""
        \{1,2,3\} @ \{3,1,2\}
        \{1,2,2\} @ \{1,2\}
        \{1, 10, 100\} @ \{100,10,1\}
        \left\{ \frac12, 3\right\} @ \{3,0.5\}
        \{\sqrt{4}, 3\} @ \{2, 3\}
        \{\sqrt8,1\} @ \{1,2\sqrt{2}\}
        1, 2, 3 @ 3, 2, 1
        1,2 @ \{2,1\}
        1 \text{ and } 2 @ 1,2
        1 or 2 @ 2, 1
        1;2 @ 1,2
        3 \pm 2\sqrt{2} @ 3+2\sqrt2, 3-2\sqrt2
        \pm 5 @ 5,-5
        \pm 5 @ \pm 5
        \{\pm 1\} @ \{-1,1\}
        (1,2) @ (1, 2)
        (\frac12, 3) @ (0.5,3)
        \left(1,-2\right) @ (1,-2)
        (1,2,3) @ ( 1 , 2 , 3 )
        (\sqrt4,\pi) @ (2, \pi)
        (12,345) @ (12, 345)
        (1,000,2) @ (1000,2)
        1,000, 2,000 @ 2000, 1000
        ((1,2),(3,4)) @ ((1,2),(3,4))
        \langle 1,2,3\rangle @ (1,2,3)
        \{(1,2),(3,4)\} @ \{(3,4),(1,2)\}
        (1,2),(3,4) @ (3,4),(1,2)
        \emptyset @ \{\}
        \varnothing @ \emptyset
        \{1,2\}\cup\{3\} @ 1,2,3
        \{x,y\} @ \{y,x\}
        \begin{pmatrix}1&2\\3&4\end{pmatrix} @ \begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}
        \begin{bmatrix}1&2\\3&4\end{bmatrix} @ \begin{pmatrix}1&2\\3&\sqrt{16}\end{pmatrix}
        \begin{pmatrix}\frac12\\-1\end{pmatrix} @ \begin{pmatrix} 0.5 \\ -1 \end{pmatrix}
        3:2 @ 6:4
        3:2 @ \frac32
        1:2:3 @ 2:4:6
        \sqrt2:1 @ 2:\sqrt2
    """,
    "intervals": r"""
        [1,2] @ [1, 2]
        1\le x\le 2 @ [1,2]
        [1,2] @ 1 \leq x \leq 2
        2 \ge x \ge 1 @ [1,2]
        (1,2) @ 1<x<2
        1<x\le 2 @ (1,2]
        x\in[1,2) @ [1,2)
        x>3 @ (3,\infty)
        3<x @ x>3
        x\le -1 @ (-\infty,-1]
        ]1,2[ @ (1,2)
        (-\infty,3)\cup(5,\infty) @ (5,\infty)\cup(-\infty,3)
        x<3 \text{ or } x>5 @ (-\infty,3)\cup(5,\infty)
        x<3 or x>5 @ (-\infty,3)\cup(5,\infty)
        [1,2]\cup[2,3] @ [1,3]
        [1,\sqrt2]\cup[\sqrt2,2] @ [1,2]
        (0,1)\cup\{1\} @ (0,1]
        \mathbb{R} @ (-\infty,\infty)
        \text{all real numbers} @ \mathbb{R}
        \mathbb{R}\setminus\{3\} @ (-\infty,3)\cup(3,\infty)
        x \ne 3 @ \mathbb{R}\setminus\{3\}
        \{x \mid x>2\} @ (2,\infty)
        [0,\frac{\pi}{2}] @ [0,\pi/2]
        [\sqrt{4},3] @ [2,3]
        [a,b] @ [a,b]
    """,
    "choices and words": r"""
        B @ B
        (B) @ B
        \text{B} @ B
        \textbf{(B)} @ B
        \text{(B)} @ B
        B. @ B
        b @ B
        \textbf{(B)}\ 12 @ B
        \textbf{(B)}\ 12 @ 12
        12 @ \textbf{(B)}\ 12
        (B) 12 @ (B)
        \text{yes} @ Yes
        yes @ Yes
        No @ no
        \text{even} @ Even
        Monday @ \text{Monday}
        \text{no solution} @ No solution
        \textbf{True} @ true
        (A), (C) @ (C), (A)
    """,
    "bases": r"""
        101_2 @ 101_2
        101_{2} @ 101_2
        101_{\text{two}} @ 101_2
        0101_2 @ 101_2
        1A_{16} @ 1a_{16}
        \text{101}_2 @ 101_2
    """,
    "the same text": r"""
        1,2,\ldots,n @ 1,2,\ldots,n
        1000000! @ 1000000!
        \frac{1}{0} @ \frac10
        9^{9^{9^9}} @ 9^{9^{9^9}}
        \text{Evelyn, then Briana} @ \text{Evelyn, then Briana}
        \triangle ABC @ \triangle ABC
        f'(x) @ f'(x)
        x+y>2 @ x + y > 2
    """,
    "further notations": r"""
        1 @ |AB|=1
        6 @ S_{\triangle ABC}=6
        \frac12 @ \sin x=\frac12
        0.5 @ \sin x=\frac12
        32349 @ 32,\! 349
        32,\! 349 @ 32,349
        i @ \mathrm{i}
        \mathrm{i} @ i
        I @ i
        3+4*I @ 3+4i
        (3+4j) @ 3+4i
        -1/2 + sqrt(3)*I/2 @ -\frac12+\frac{\sqrt3}{2}i
        4, 5 @ AB=4,CD=5
        CD=5, AB=4 @ AB=4,CD=5
        x \ne 3 @ x != 3
        x != 3 @ x \ne 3
        x!=3 @ x\neq 3
        [[1,2],[3,4]] @ \begin{pmatrix}1&2\\3&4\end{pmatrix}
        \begin{bmatrix}1&2\\3&4\end{bmatrix} @ [[1,2],[3,4]]
        Matrix([[1, 2], [3, 4]]) @ \begin{pmatrix}1&2\\3&4\end{pmatrix}
        [1,2;3,4] @ \begin{pmatrix}1&2\\3&4\end{pmatrix}
        \left[\begin{array}{cc}1&2\\3&4\end{array}\right] @ \begin{pmatrix}1&2\\3&4\end{pmatrix}
        [[1],[2]] @ \begin{pmatrix}1\\2\end{pmatrix}
        x <= 3 @ x\le 3
        x >= 3 @ x\ge 3
        x =< 3 @ x\le 3
        x ≤ 3 @ x\le 3
        60^\circ @ \angle ABC=60^\circ
        60 @ \angle ABC=60^\circ
        \angle ABC=60^\circ @ 60
        \angle A=30^\circ @ m\angle A = 30^\circ
        \frac{5!}{2!3!} @ 10
        {5\choose 2} @ 10
        10 @ {5\choose 2}
        \binom52 @ 10
        12\pi @ 12\pi\approx 37.7
        12\pi\approx 37.7 @ 12\pi
        12\pi \approx 37.70 @ 12\pi
        \mathbb{R} @ \text{all real numbers}
        \text{all real numbers} @ (-\infty,\infty)
        x\in\mathbb{R} @ all real numbers
        ４２ @ 42
        ４．５ @ 4.5
        （１，２） @ (1,2)
        \binom{5}{2}=10 @ 10
        10 @ \binom{5}{2}=10
        5 @ 2+3=5
        \frac12 @ x=\frac12=0.5
        6 @ \text{Area}=6
        5 @ \overline{AB}=5
        \sqrt2 @ |\vec{a}|=\sqrt{2}
        \frac13 @ P(A)=\frac13
        \frac14 @ P(X=2)=\frac14
        6 @ [ABC]=6
        55 @ a_{10}=55
        2 @ \tan\theta=2
        3/5 @ \cos A = \frac{3}{5}
        1 @ \sin 2x = 1
        3 @ f'(1)=3
        2,3 @ x_1=2,x_2=3
        (1,2) @ a=1,b=2
        (1,2) @ x=1, y=2
        (1,2) @ \vec{v}=(1,2)
        30 percent @ 30\%
        60^\circ @ 60 \text{ degrees}
        1½ @ 1\frac12
        x¹⁰ @ x^{10}
        x₁₂ @ x_{12}
        ∛2 @ \sqrt[3]{2}
        β+1 @ \beta+1
        ℤ @ \mathbb{Z}
        \mathbb{N} @ \mathbb{N}
        {a \over b} @ \frac{a}{b}
        {1\over 2} @ 1/2
        =5 @ 5
        \approx 5 @ 5
        ≈ 3.14 @ 3.14
        \text{8 cm} @ 8
        8 @ 8\text{ m/s}
        8 m/s @ 8\ \mathrm{m/s}
        3 < x @ x>3
        x\neq 3 @ x\not=3
        x \neq 3 @ x <> 3
        [-3,5] @ -3<=x<=5
        9:30 AM @ 9:30\text{ a.m.}
        9:30 am @ 9:30 a.m.
        15:30 @ 3:30 \text{ p.m.}
        12:00 p.m. @ noon
        5:00 PM @ 5 p.m.
        5:00 @ 5 o'clock
        6:8 @ 3:4
        3/4 @ 3:4
        \frac{\pi}{4} @ \operatorname{arctan}(1)
        \frac{3}{4}\approx 0.75 @ 3/4
        E**2 @ \exp(2)
        exp(2) @ e^2
        log(3)/log(2) @ \log_{2}(3)
        sqrt(3)/2 @ \sqrt{3}/2
        0<=x<=1 @ [0,1]
        {1, 2} @ \{1,2\}
        {1,2} @ \{1,2\}
        18 @ US\$18
        18 USD @ 18
        500 @ \yen 500
        ¥100 @ 100
        \,5\, @ 5
        7 \mathrm{m/s} @ 7 m/s
        (2, 12)\cup(12, 345) @ (2,12)\cup(12,345)
        (5,2),(7,2) @ p=5,q=2;p=7,q=2
        11:21 @ V_{1}:V_{2}=11:21
        28 pct @ 28\%
        125\textnormal{ miles} @ 125
    """,
}

INCORRECT = {
    "numbers": r"""
        12 @ 13
        1,2 @ 12
        0.333 @ 1/3
        3.14 @ \pi
        3.14159 @ \pi
        \pi @ \frac{22}{7}
        0.0000001 @ 0.0000002
        123456789012345678901 @ 123456789012345678900
        -5 @ 5
        5/12 @ 17
        2\frac{1}{3} @ \frac{2}{3}
        0.\overline{3} @ 0.3
        1/2 @ 2/1
        1,234 @ 1235
        5 million @ 5
        50\% @ 40\%
        50\% @ 3
        0.9 @ 0.\overline{9}
        \frac{1}{2004!} @ \frac{1}{2006!}
        \frac{1}{2^{99}} @ \frac{1}{2^{98}}
        5! @ 121
        2^{10} @ 1000
        12\text{ cm} @ 13
        12\text{ cm} @ 13\text{ m}
        12\text{ cm} @ 13\text{ kg}
        90\text{ minutes} @ 2\text{ hours}
        \$18 @ 19
        90^\circ @ 91
        45^\circ @ \frac{\pi}{3}
        10^{-40} @ 0
        1+10^{-60} @ 1
        -2^2 @ 4
    """,
    "expressions": r"""
        4\sqrt{2} @ 4
        4\sqrt(2) @ 4
        2\sqrt{3} @ 3\sqrt{2}
        \sqrt{2} @ 1.41421356237
        1-\frac{1}{e} @ 1+\frac{1}{e}
        1 - \frac{1}{\mathrm{e}} @ 1 + \frac{1}{\mathrm{e}}
        1.0000001\pi @ 1.0000002\pi
        2^{200}\pi @ 2^{200}\pi+1
        e^{\pi\sqrt{163}} @ 262537412640768744
        \pi+10^{-50} @ \pi
        e^{-5000} @ 0
        \ln 2 @ 0.693147
        \log_2 8 @ 4
        \sin 30^\circ @ \frac{\sqrt3}{2}
        3+4i @ 3-4i
        i @ 1
        x^2+2x+1 @ (x-1)^2
        x @ 5
        x @ 2x
        \frac{a}{b}c @ \frac{a}{b}
        \frac{a}{b} @ \frac{a}{b}c
        -x @ x
        x^2 @ x^3
        2^n @ n^2
        (x+1)^{5000} @ 1
        x^{100} @ x^{101}
        \infty @ -\infty
        \infty @ 7
        \infty @ \sqrt{2}
        n! @ (n+1)!
        1000000! @ 1
        (99\cdot 99\cdot 99)! @ 1
        \sum_{k=1}^{9} k @ 46
        \int_0^1 x^2 \, dx @ \frac12
        \cos(2\pi/5) @ 0.309
        \sqrt{x^2+1} @ x+1
    """,
    "equations": r"""
        x=5 @ 6
        x=5 @ y=6
        3x-1y+13=0 @ 3x+4y+14=0
        3*x-1*y+13=0 @ 3x+4y+14=0
        y=2x+3 @ y=2x-3
        x^2+y^2=1 @ x^2+y^2=2
        x=1,2 @ 1,3
        x+y=1 @ 5
        x^2=4 @ x=2
        y^2=x @ y=\sqrt{x}
        (x,y)=(1,2) @ (2,1)
        (x-1)(x-2)=0 @ (x-1)(x-3)=0
    """,
    "collections": r"""
        (1,2) @ (2,1)
        (1,2) @ (1,2,3)
        \{1,2\} @ \{1,3\}
        \{1,2\} @ \{1,2,3\}
        1,2 @ 1,3
        1,2,3 @ 1,2
        5 @ 1,2
        \{12,13\} @ 13
        12,13 @ 13
        \pm 5 @ 5,6
        [1,2] @ (1,2)
        [1,2) @ (1,2]
        [1,2] @ [1,3]
        x>3 @ x\ge 3
        x>3 @ x<3
        1<x<2 @ 1\le x\le 2
        [1,2]\cup[3,4] @ [1,4]
        (0,1)\cup(1,2) @ (0,2)
        [0,\sqrt2] @ [0,1.414]
        \mathbb{R} @ [0,\infty)
        \emptyset @ \{0\}
        (1,2)\cup(2,3) @ (1,3)
        [1,2] @ 5
        [a,3] @ [1,3]
        \begin{pmatrix}1&2\\3&4\end{pmatrix} @ \begin{pmatrix}1&2\\3&5\end{pmatrix}
        \begin{pmatrix}1&2\end{pmatrix} @ \begin{pmatrix}1&2\\3&4\end{pmatrix}
        3:2 @ 2:3
        3:2 @ 3:1
        \{(1,2),(3,4)\} @ \{(2,1),(3,4)\}
    """,
    "choices, words, bases": r"""
        B @ C
        (B) @ D
        \textbf{(B)}\ 12 @ 13
        odd @ even
        yes @ No
        Monday @ Tuesday
        \text{Monday} @ 5
        101_2 @ 111_2
        101_2 @ 102_3
        101_2 @ 7
    """,
    "further notations": r"""
        11/2 @ 1 1/2
        1 1/2 @ 11/2
        21/3 @ 2 1/3
        9:30 p.m. @ 9:30 a.m.
        9:30\text{ p.m.} @ 9:30\text{ a.m.}
        2:20 p.m. @ 1:10 p.m.
        0.04 @ 1:25 p.m.
        \frac{1}{25} @ 1:25 p.m.
        midnight @ noon
        12:00 p.m. @ 12:00 a.m.
        3:30 a.m. @ 15:30
        5 a.m. @ 5 p.m.
        5am @ 5pm
        9.30 a.m. @ 9.30 p.m.
        9:03 @ 9:30
        7:60 @ 3:30
        AB=5,CD=4 @ AB=4,CD=5
        x = 3 @ x != 3
        3 @ x \ne 3
        x < 3 @ x \le 3
        [[1,3],[2,4]] @ \begin{pmatrix}1&2\\3&4\end{pmatrix}
        [1,2,3,4] @ \begin{pmatrix}1&2\\3&4\end{pmatrix}
        [1,2,3,4] @ [1,2;3,4]
        37.7 @ 12\pi
        11\pi \approx 37.7 @ 12\pi
        3-4I @ 3+4i
        3+4 @ 3+4i
        x^1 @ x^{10}
        10² @ 102
        102 @ 10^2
        2½ @ 21/2
        2 @ |AB|=1
        \cos x=\frac12 @ \sin x=\frac12
        60\pi @ \angle ABC=60^\circ
        5 @ 5!
        5 @ 5!=120
        n!=6 @ n != 3
        12/3 @ 1 2/3
        3.01 @ 3.10
        1:00 @ 12:00
        7 @ 2 100/300
        2:30 @ 90 minutes
        4 @ 3:00 p.m.
        x @ 3:00 p.m.
        Monday @ 3:00 p.m.
    """,
}

UNDECIDED = {
    "conventions differ": r"""
        0.5\% @ 0.5
        0.5 @ 0.5\%
        1.234,56 @ 1234.56
        12\text{ cm} @ 12\text{ m}
        12 cm^2 @ 12 cm
        101_2 @ 5
        101_2 @ 101
        101_2 @ 5_{10}
        \{5\} @ 5
        [5] @ 5
        1,2 @ (1,2)
        1,1,2 @ 1,2
        [1,2] @ \{1,2\}
        \begin{pmatrix}1\\2\end{pmatrix} @ (1,2)
        \begin{pmatrix}1\\2\end{pmatrix} @ \begin{pmatrix}1&2\end{pmatrix}
        \log 100 @ 2
        x=5 @ y=5
        x>3 @ y>3
        \sqrt{x^2} @ x
        \ln(x^2) @ 2\ln x
        x^2+C @ x^2+K
        x=k\pi @ x=n\pi
        k\pi @ n\pi
        \sqrt{a}\sqrt{b} @ \sqrt{ab}
        10:30 @ 1:3
        (x-1)^2=0 @ x-1=0
        yes @ true
        seven @ 7
        none @ 0
        abc @ bca
        \text{no solution} @ \emptyset
        \text{the second one} @ \text{second}
        (B) 12 @ (B) 13
    """,
    "not readable whole": r"""
        1/2x @ \frac{1}{2x}
        2^3^2 @ 512
        f(2) @ 4
        x! @ \Gamma(x+1)
        \infty+1 @ \infty
        \sin(\pi\cdot 10^{20}) @ 0
        \frac{a}{b @ \frac{a}{b}
        {5 @ 5
        5\,\text{m}\,\text{s}^{-1} @ 5
        x \geq -2, x \le 2 @ [-2,2]
        x \geq -2 \text{ and } x \le 2 @ [-2,2]
        \frac34\text{ or }0.75 @ 0.75
        \text{Option B} @ B
        \text{The answer is } 5 @ 5
        \ln(x)+\ln(y) @ \ln(xy)
        \lfloor x \rfloor @ x
        12 13 @ 25
        2+ @ 2
        1,2,\ldots,n @ 1,3,5,\ldots,2n-1
        \triangle ABC @ 5
        5 \equiv 2 \pmod 3 @ 2
        x+y>2 @ y+x>2
        \frac{dy}{dx} @ \frac{y}{x}
        \int x dx @ \frac{x^2}{2}
        \begin{vmatrix}1&2\\3&4\end{vmatrix} @ -2
        \frac{1}{0} @ 5
        0^0 @ 1
        \pm 1 \pm \sqrt{2} @ 1
        (-8)^{1/3} @ 1+\sqrt{3}i
        129_2 @ 5
        2\frac{5}{3} @ 11
        \sin x y + @ 1
        \sin x(1+y) @ 1
        x'' @ 1
        \overline{AB} @ 5
        5\mod 3 @ 2
        ((((((((((((((((((((((((((((((x)))))))))))))))))))))))))))))) @ y
    """,
    "too large": r"""
        9^{9^{9^9}} @ 1
        \frac{1000000!}{999999!} @ 1000000
        e^{e^{e^{e^e}}} @ 1
        \sin(10^{100000}) @ 0
        \pi+e^{-5000} @ \pi
        \sum_{k=1}^{10^9} \sin k @ 1
        \sum_{k=1}^{\infty} \frac{1}{k} @ 1
        \lim_{x\to 0} \frac{1}{x} @ 0
        \lim_{x\to\infty} \sin x @ 0
        \tan 90^\circ @ 1
        \ln 0 @ 1
        \log_1 5 @ 1
        \frac{1}{\sin \pi} @ 1
        \lfloor i \rfloor @ 1
        [\sqrt{-1},2]\cup[5,6] @ [1,2]
        [a,3]\cup[5,6] @ [1,3]
        \infty @ \frac{1}{\sin\pi}
        \gcd(\pi,2) @ 1
        \infty-\infty @ 0
    """,
    "further notations": r"""
        1 2 @ 12
        12 @ 1 2
        2:20 @ 1:10
        0.04 @ 1:25
        5,4 @ AB=4,CD=5
        2,1 @ a=1,b=2
        (2,1) @ x=1,y=2
        1 @ x+y=1
        1 @ x^2+y^2=1
        6 @ xy=6
        37.7\approx 12\pi @ 12\pi
        37.7 @ 12\pi\approx 37.7
        \binom{5}{2}=11 @ 10
        \binom{5}{3}=9 @ 10
        9=10 @ 10
        x2 @ x^2
        34 @ 3 4
        3,4 @ 3 4
        123 @ 1 2 3
        0 5 @ 0.5
        1,22 @ 1.22
        0,111 @ 0.111
        3,14 @ 3.14
        3:30 @ 15:30
        3:30 @ 3.5
        1:30 @ 90 minutes
        3 @ 3:00 p.m.
        3:00 @ 3:00 p.m.
    """,
}

TABLE = [
    (status, topic, *(side.strip() for side in line.split(" @ ")))
    for status, topics in (("correct", CORRECT), ("incorrect", INCORRECT), ("undecided", UNDECIDED))
    for topic, lines in topics.items()
    for line in lines.splitlines()
    if line.strip()
]


@cache
def judged() -> dict[tuple[str, str], tuple[str, str]]:
    """Status and reason of every pair, judged by the same workers."""

    async def judge_all() -> dict[tuple[str, str], tuple[str, str]]:
        async with open_workers(limit_s=60.0, quick_s=60.0) as workers:
            verdicts = {(answer, gold): await judge(answer, gold, workers) for _, _, answer, gold in TABLE}
        return {pair: (verdict.status, verdict.reason) for pair, verdict in verdicts.items()}

    return asyncio.run(judge_all())


@pytest.mark.parametrize(("status", "topic", "answer", "gold"), TABLE)
def test_a_pair_is_judged_right(status: str, topic: str, answer: str, gold: str) -> None:
    assert judged()[answer, gold][0] == status, judged()[answer, gold][1]


def test_the_worker_finds_what_its_algebra_finds_in_this_process() -> None:
    algebra = NumericAlgebra()
    statuses = {"equal": "correct", "different": "incorrect", "unclear": "undecided"}
    for _, _, answer, gold in TABLE:
        if judge_exactly(answer, gold) is None:
            finding = compare_texts(answer, gold, algebra)
            assert (statuses[finding.status], finding.reason) == judged()[answer, gold]


def test_the_table_is_large_and_holds_no_pair_twice() -> None:
    pairs = [(answer, gold) for _, _, answer, gold in TABLE]
    assert len(pairs) >= 350
    assert len(set(pairs)) == len(pairs)


def test_undecided_names_its_reason() -> None:
    assert all(judged()[answer, gold][1] for status, _, answer, gold in TABLE if status == "undecided")
