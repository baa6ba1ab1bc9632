"""Code of the kind that models write, to run in a sandbox and outside: `### name` starts a program, `# %%` a new call.

Written before the sandbox was made to run it. Each program prints the same in every run.
"""

from collections.abc import Mapping

_TEXT = r'''
### ordered pairs
count = 0
for x in range(1, 37):
    for y in range(1, 37):
        if x * y == 36:
            count += 1
print(count)
### sum of digits
print(sum(int(d) for d in str(2**1000)))
### solve a quadratic
from sympy import symbols, solve
x = symbols('x')
print(solve(x**2 - 5*x + 6, x))
### star import of sympy
from sympy import *
x, y = symbols('x y')
print(solve([x + y - 10, x - y - 2], [x, y]), factorint(360), totient(36), divisors(28))
### star import of numpy
from numpy import *
a = arange(6).reshape(2, 3)
print(a.T @ a, linspace(0, 1, 3), pi)
### star imports of both
from sympy import *
from numpy import *
print(round(float(sin(1.0)), 6))
### lambdify without a backend
import sympy as sp
x = sp.symbols('x')
f = sp.lambdify(x, sp.sin(x) + x**2)
print(round(float(f(2)), 10))
### lambdify with numpy
import numpy as np, sympy as sp
x = sp.symbols('x')
f = sp.lambdify(x, sp.exp(-x**2), 'numpy')
print(np.round(f(np.array([0.0, 1.0, 2.0])), 8))
### lambdify with mpmath
import sympy as sp
x = sp.symbols('x')
print(sp.lambdify(x, sp.sqrt(x), 'mpmath')(2))
### lambdify with math
import sympy as sp
x, y = sp.symbols('x y')
print(sp.lambdify((x, y), sp.cos(x) * y, modules=['math'])(0, 3))
### lambdify with sympy
import sympy as sp
x = sp.symbols('x')
print(sp.lambdify(x, x**2 + 1, 'sympy')(sp.Rational(1, 2)))
### lambdify with scipy
import sympy as sp
x = sp.symbols('x')
print(sp.lambdify(x, sp.gamma(x), ['scipy', 'numpy'])(5))
### lambdify with numexpr
import sympy as sp
x = sp.symbols('x')
print(sp.lambdify(x, x + 1, 'numexpr')(5))
### lambdify a matrix
import sympy as sp
x = sp.symbols('x')
print(sp.lambdify(x, sp.Matrix([[x, 1], [0, x]]), 'numpy')(2))
### guarded plotting
try:
    import matplotlib.pyplot as plt
    plt.plot([1, 2, 3])
except ImportError:
    print('no plotting')
print('done')
### guarded requests
try:
    import requests
except ModuleNotFoundError as error:
    print(type(error).__name__, error)
### guarded pandas and torch
found = []
for name in ('pandas', 'torch', 'scipy', 'networkx', 'sklearn', 'pydantic'):
    try:
        __import__(name)
        found.append(name)
    except ImportError:
        pass
print(found)
### find_spec of an absent package
import importlib.util
print([importlib.util.find_spec(n) is not None for n in ('requests', 'pandas', 'numpy', 'sympy', 'mpmath', 'scipy')])
### import_module of an absent package
import importlib
try:
    importlib.import_module('scipy.optimize')
except ImportError as error:
    print(repr(error), error.name)
### importing an absent package
import pandas as pd
### importing from an absent package
from scipy.optimize import fsolve
print(fsolve(lambda x: x**2 - 2, 1))
### listing the packages
import pkgutil
names = {m.name for m in pkgutil.iter_modules()}
print(sorted(names & {'numpy', 'sympy', 'mpmath', 'requests', 'torch', 'pandas', 'isympy'}))
### listing the distributions
import importlib.metadata as m
print(sorted(d.metadata['Name'] for d in m.distributions()))
### version of a package
from importlib.metadata import version
import numpy
print(version('numpy') == numpy.__version__, version('sympy') > '1')
### version of an absent package
from importlib.metadata import version
print(version('requests'))
### sqlite in memory
import sqlite3
db = sqlite3.connect(':memory:')
db.execute('create table t(a, b)')
db.executemany('insert into t values (?, ?)', [(i, i * i) for i in range(10)])
print(db.execute('select sum(a), sum(b) from t where a % 2').fetchall())
### sqlite in a file
import sqlite3
with sqlite3.connect('my.db') as db:
    db.execute('create table t(a)')
    db.execute('insert into t values (1)')
print(sqlite3.connect('my.db').execute('select * from t').fetchall())
### asyncio run
import asyncio
async def square(n):
    await asyncio.sleep(0.001)
    return n * n
async def main():
    return await asyncio.gather(*[square(n) for n in range(5)])
print(asyncio.run(main()))
### asyncio queue and timeout
import asyncio
async def main():
    queue = asyncio.Queue()
    async def produce():
        for n in range(3):
            await queue.put(n)
    task = asyncio.create_task(produce())
    got = [await queue.get() for _ in range(3)]
    await task
    try:
        await asyncio.wait_for(asyncio.sleep(10), 0.01)
    except asyncio.TimeoutError:
        got.append('timeout')
    return got
print(asyncio.run(main()))
### asyncio to_thread
import asyncio
print(asyncio.run(asyncio.to_thread(sum, range(10))))
### asyncio twice
import asyncio
async def f(): return 1
print(asyncio.run(f()))
# %%
print(asyncio.new_event_loop().run_until_complete(f()))
### a thread
import threading
out = []
t = threading.Thread(target=lambda: out.append(threading.current_thread() is not threading.main_thread()))
t.start(); t.join()
print(out)
### threads with a lock
import threading
total, lock = 0, threading.Lock()
def add():
    global total
    for _ in range(1000):
        with lock:
            total += 1
ts = [threading.Thread(target=add) for _ in range(8)]
[t.start() for t in ts]; [t.join() for t in ts]
print(total)
### thread pool
from concurrent.futures import ThreadPoolExecutor, as_completed
with ThreadPoolExecutor(max_workers=4) as pool:
    print(list(pool.map(lambda n: n**2, range(10))))
    print(sorted(f.result() for f in as_completed([pool.submit(pow, 2, n) for n in range(5)])))
### default thread pool
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor() as pool:
    print(sum(pool.map(int, '12345')))
### thread prints
import threading
t = threading.Thread(target=print, args=('from a thread',))
t.start(); t.join()
### queue
import queue, threading
q = queue.Queue()
threading.Thread(target=lambda: [q.put(i) for i in range(3)]).start()
print([q.get(timeout=5) for _ in range(3)])
### decimal
from decimal import Decimal, getcontext
getcontext().prec = 50
print(Decimal(2).sqrt(), Decimal(1) / Decimal(7))
### fractions
from fractions import Fraction
print(sum(Fraction(1, n) for n in range(1, 20)), Fraction('0.125'), Fraction(3, 4).limit_denominator(2))
### statistics
import statistics
data = [2, 4, 4, 4, 5, 5, 7, 9]
print(statistics.mean(data), statistics.pstdev(data), statistics.median(data), statistics.mode(data))
### random with a seed
import random
random.seed(42)
print([random.randint(1, 6) for _ in range(10)], random.sample(range(100), 3), random.choice('abc'))
### numpy random with a seed
import numpy as np
rng = np.random.default_rng(0)
print(rng.integers(0, 10, 5), np.round(rng.normal(size=3), 6))
np.random.seed(1)
print(np.random.rand(2))
### Monte Carlo
import random
random.seed(0)
hits = sum(random.random()**2 + random.random()**2 < 1 for _ in range(100000))
print(4 * hits / 100000)
### itertools
from itertools import permutations, combinations, product, accumulate, groupby, chain
print(len(list(permutations(range(6)))), sum(1 for c in combinations(range(10), 3) if sum(c) % 3 == 0))
print(list(accumulate([1, 2, 3])), [(k, len(list(g))) for k, g in groupby('aabbb')], list(product('ab', repeat=2)))
### lru_cache recursion
from functools import lru_cache
@lru_cache(None)
def ways(n):
    return 1 if n < 2 else ways(n - 1) + ways(n - 2)
print(ways(90))
### reduce and partial
from functools import reduce, partial, cmp_to_key
print(reduce(lambda a, b: a * b, range(1, 21)), partial(pow, 2)(10))
print(sorted([3, 1, 2], key=cmp_to_key(lambda a, b: b - a)))
### recursion limit
import sys
sys.setrecursionlimit(10000)
def depth(n): return 0 if n == 0 else 1 + depth(n - 1)
print(depth(5000))
### infinite recursion
def f(n): return f(n + 1)
f(0)
### generators
def primes():
    seen, n = [], 2
    while True:
        if all(n % p for p in seen):
            seen.append(n)
            yield n
        n += 1
g = primes()
print([next(g) for _ in range(20)])
### classes
class Point:
    def __init__(self, x, y): self.x, self.y = x, y
    def __add__(self, other): return Point(self.x + other.x, self.y + other.y)
    def __repr__(self): return f'Point({self.x}, {self.y})'
print(Point(1, 2) + Point(3, 4))
### dataclasses
from dataclasses import dataclass, field, asdict
@dataclass(order=True)
class Item:
    weight: int
    name: str = field(compare=False)
print(sorted([Item(3, 'a'), Item(1, 'b')]), asdict(Item(2, 'c')))
### enums and named tuples
from enum import Enum, auto
from collections import namedtuple
class Color(Enum):
    RED = auto()
    BLUE = auto()
P = namedtuple('P', 'x y')
print(list(Color), P(1, 2)._replace(x=5))
### typing
from typing import List, Optional, TypedDict
class D(TypedDict):
    a: int
def f(x: Optional[List[int]] = None) -> D: return {'a': len(x or [])}
print(f([1]), f.__annotations__)
### f-strings
value = 3.14159265
print(f'{value:.2f} {value:>10.3f} {1234567:,} {255:#x} {255:08b} {value=:.1f} {"a"!r:>5}')
### big numbers
print(2**5000 % 10**50)
print(len(str(3**10000)))
print(3**10000 > 0)
### a big factorial
import math
print(math.factorial(200), math.comb(100, 50), math.isqrt(10**40), math.gcd(84, 36), math.lcm(4, 6))
### an exception with a traceback
def inner(d): return d['missing']
def outer(): return inner({})
outer()
### division by zero
print('before')
print(1 / 0)
### a caught traceback
import traceback
try:
    int('abc')
except ValueError:
    print(traceback.format_exc().splitlines()[-1])
### an assertion
assert 1 + 1 == 3, 'arithmetic'
### a syntax error
def f(:
    pass
### an undefined name
print(undefined_name)
### an indentation error
if True:
print(1)
### exit
print('before')
exit()
print('after')
### sys.exit
import sys
print('before')
sys.exit(0)
### state in several calls
x = 10
def scale(n): return n * x
# %%
x = 20
# %%
print(scale(3))
# %%
del x
# %%
scale(3)
### a final expression
a = [1, 2, 3]
a
# %%
a.append(4); a
# %%
a[10]
# %%
a
### imports in several calls
import sympy as sp
x = sp.Symbol('x')
# %%
expr = sp.integrate(sp.sin(x)**2, (x, 0, sp.pi))
expr
# %%
sp.simplify(expr * 2)
### json
import json
print(json.dumps({'b': [1, 2.5, None], 'a': 'é'}, sort_keys=True, indent=1), json.loads('{"x": [1]}'))
### regular expressions
import re
print(re.findall(r'\d+', 'a1b22c333'), re.sub(r'(\w+) (\w+)', r'\2 \1', 'hello world'))
### dates
from datetime import date, timedelta, datetime
import calendar
d = date(2024, 2, 28)
print(d + timedelta(days=2), d.strftime('%A'), (date(2025, 1, 1) - d).days, calendar.isleap(2024))
print(datetime(2000, 1, 1, 12).isoformat(), calendar.month(2024, 2))
### time zones
from datetime import datetime
from zoneinfo import ZoneInfo
print(datetime(2024, 7, 1, 12, tzinfo=ZoneInfo('Europe/Paris')).astimezone(ZoneInfo('America/New_York')))
### sleep and timing
import time, timeit
t = time.perf_counter()
time.sleep(0.01)
print(time.perf_counter() - t >= 0.01, timeit.timeit('sum(range(10))', number=10) > 0)
### heaps and bisection
import heapq, bisect
h = [5, 1, 4]
heapq.heapify(h)
heapq.heappush(h, 0)
print(heapq.heappop(h), heapq.nlargest(2, h), bisect.bisect([1, 3, 5], 3))
### collections
from collections import Counter, defaultdict, deque, OrderedDict, ChainMap
c = Counter('mississippi')
print(c.most_common(2), dict(c))
dd = defaultdict(list); dd['a'].append(1)
print(dd, deque([1, 2, 3], maxlen=2))
### files in the working folder
with open('out.txt', 'w') as f:
    f.write('line 1\nline 2\n')
import os, glob
print(open('out.txt').read().split('\n'), os.path.exists('out.txt'), glob.glob('*.txt'), os.path.getsize('out.txt'))
os.remove('out.txt')
print(os.listdir('.'))
### pathlib
from pathlib import Path
p = Path('a/b'); p.mkdir(parents=True)
(p / 'c.txt').write_text('hi')
print(sorted(str(q) for q in Path('.').rglob('*')), (p / 'c.txt').read_text())
### temporary files
import tempfile, os
with tempfile.NamedTemporaryFile('w+', suffix='.txt') as f:
    f.write('x'); f.seek(0); print(f.read())
with tempfile.TemporaryDirectory() as d:
    open(os.path.join(d, 'a'), 'w').close()
    print(os.listdir(d))
with tempfile.TemporaryFile() as f: print(f.write(b'abc'))
### a module of one's own
with open('mymodule.py', 'w') as f:
    f.write('def double(n):\n    return 2 * n\n')
import sys
import mymodule
print(mymodule.double(21))
### io and csv
import csv, io
buffer = io.StringIO()
csv.writer(buffer).writerows([[1, 'a,b'], [2, 'c']])
print(repr(buffer.getvalue()), list(csv.DictReader(io.StringIO('x,y\n1,2'))))
### redirected output
import io, contextlib
with contextlib.redirect_stdout(io.StringIO()) as out:
    print('hidden')
print(out.getvalue().upper())
### hashes
import hashlib, hmac, base64, binascii, zlib, secrets
print(hashlib.md5(b'a').hexdigest(), hashlib.sha256(b'a').hexdigest()[:8], hashlib.blake2b(b'a').hexdigest()[:8])
print(hmac.new(b'k', b'm', 'sha1').hexdigest(), base64.b64encode(b'hi'), zlib.crc32(b'a'), len(secrets.token_hex(4)))
### compression and archives
import gzip, bz2, lzma, zipfile, io
for m in (gzip, bz2, lzma): print(m.decompress(m.compress(b'abc' * 100)) == b'abc' * 100)
z = zipfile.ZipFile(io.BytesIO(), 'w'); z.writestr('a', 'b'); print(z.namelist())
### locale
import locale
print(locale.setlocale(locale.LC_ALL, 'C'), locale.setlocale(locale.LC_ALL, 'C.UTF-8'))
print(locale.format_string('%d', 1234, grouping=True))
### unit tests
import unittest
class T(unittest.TestCase):
    def test_a(self): self.assertEqual(1 + 1, 2)
    def test_b(self): self.assertEqual(1, 2)
r = unittest.TextTestRunner(stream=open('log', 'w')).run(unittest.defaultTestLoader.loadTestsFromTestCase(T))
print(r.testsRun, len(r.failures))
### doctests
import doctest
def f(n):
    """
    >>> f(2)
    4
    """
    return n * 2
print(doctest.run_docstring_examples(f, {'f': f}))
### warnings
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter('always')
    warnings.warn('careful', UserWarning)
print([str(w.message) for w in caught])
### source of typed code
import inspect
def f(n):
    return n + 1  # a comment
print(inspect.getsource(f), inspect.signature(f))
### logging
import logging, sys
logging.basicConfig(stream=sys.stdout, level=logging.INFO, format='%(levelname)s %(message)s')
logging.info('hello')
### pretty printing
from pprint import pprint
import textwrap, string
pprint({'a': list(range(30)), 'b': {'c': 'd' * 50}})
print(textwrap.fill('word ' * 20, 30), string.ascii_lowercase)
### copying and pickling
import copy, pickle
class A: pass
a = A(); a.x = [1]
b = copy.deepcopy(a); b.x.append(2)
print(a.x, b.x, pickle.loads(pickle.dumps(b)).x)
### context managers and decorators
from contextlib import contextmanager
@contextmanager
def tag(name):
    print('<' + name + '>'); yield; print('</' + name + '>')
with tag('b'): print('x')
### structural matching
def describe(x):
    match x:
        case {'kind': k, **rest}: return k, rest
        case [a, *others]: return a, others
        case _: return None
print(describe({'kind': 1, 'z': 2}), describe([1, 2, 3]), describe(5))
### an alarm
import signal
def stop(n, f): raise TimeoutError('too slow')
signal.signal(signal.SIGALRM, stop)
signal.setitimer(signal.ITIMER_REAL, 0.05)
try:
    while True: pass
except TimeoutError as e:
    print(e)
### a forgotten alarm
import signal
signal.signal(signal.SIGALRM, lambda n, f: print('rang'))
signal.alarm(3600)
print('set')
# %%
print('still here')
### a child process
import subprocess
try:
    print(subprocess.run(['no-such-program'], capture_output=True))
except OSError as e:
    print('no program')
### uuid and platform
import uuid, platform, mimetypes, os
print(len(str(uuid.uuid4())), platform.python_implementation(), os.sep, platform.system())
print(mimetypes.guess_type('a.png'))
### simultaneous equations in numpy
import numpy as np
A = np.array([[3.0, 1.0], [1.0, 2.0]])
print(np.linalg.solve(A, [9, 8]), np.linalg.det(A).round(6), np.linalg.eigvalsh(A).round(6))
### polynomials
import numpy as np
print(np.sort(np.roots([1, -6, 11, -6])).round(6), np.polyfit([0, 1, 2], [1, 3, 7], 2).round(6), np.poly1d([1, 2])(3))
### numpy warnings
import numpy as np
with np.errstate(all='ignore'): print(np.array([1.0]) / 0)
print(np.nan == np.nan, np.isclose(0.1 + 0.2, 0.3))
### submodules of numpy
import numpy.testing, numpy.ma, numpy.polynomial, numpy.fft
numpy.testing.assert_allclose([1.0], [1.0])
print(numpy.ma.masked_array([1, 2], [0, 1]).sum(), numpy.polynomial.Polynomial([1, 2])(3), hasattr(numpy, 'f2py'))
### numpy saves
import numpy as np
np.save('a.npy', np.arange(3)); np.savetxt('a.txt', np.eye(2)); np.savez('a.npz', x=np.ones(2))
print(np.load('a.npy'), np.loadtxt('a.txt'), np.load('a.npz')['x'])
### calculus
from sympy import *
x = symbols('x')
print(diff(x**x, x), limit(sin(x) / x, x, 0), series(exp(x), x, 0, 4), integrate(1 / (1 + x**2), (x, -oo, oo)))
### number theory
from sympy import isprime, nextprime, primerange, mod_inverse, gcd, npartitions
from sympy.ntheory.modular import crt
print(isprime(2**61 - 1), nextprime(100), sum(primerange(2, 1000)), mod_inverse(3, 11))
print(crt([3, 5], [2, 3]), npartitions(50))
### diophantine equations and recurrences
from sympy import symbols, Function, rsolve, diophantine
x, y = symbols('x y', integer=True)
n = symbols('n', integer=True)
f = Function('f')
print(diophantine(2*x + 3*y - 5), rsolve(f(n) - 2*f(n - 1), f(n), {f(0): 1}))
### geometry
from sympy import Point, Triangle, Circle, Line
t = Triangle(Point(0, 0), Point(4, 0), Point(0, 3))
print(t.area, t.incircle.radius, t.circumradius, Circle(Point(0, 0), 5).intersection(Line(Point(0, 3), Point(1, 3))))
### matrices
from sympy import Matrix, symbols
M = Matrix([[1, 2], [3, 4]])
print(M.det(), M.inv(), M.eigenvals(), M.rref())
### differential equations and sets
from sympy import *
x = symbols('x'); f = Function('f')
print(dsolve(f(x).diff(x) - f(x)), solveset(x**2 - 4, x, S.Reals), nsolve(cos(x) - x, 1))
### sympy printing
from sympy import *
x = symbols('x')
print(latex(sqrt(x) / 2), pretty(x**2), ccode(x**2), srepr(x + 1), sympify('x + 1/2'))
### sympy's parser
from sympy.parsing.sympy_parser import parse_expr, standard_transformations, implicit_multiplication_application
print(parse_expr('2x + 3x y', transformations=standard_transformations + (implicit_multiplication_application,)))
### the LaTeX parser of sympy
from sympy.parsing.latex import parse_latex
print(parse_latex(r'\frac{1}{2}'))
### a plot of sympy
from sympy import symbols
from sympy.plotting import plot
x = symbols('x')
print(type(plot(x**2, show=False)).__name__)
### a text plot of sympy
from sympy import symbols, textplot
x = symbols('x')
textplot(x**2, -1, 1, W=20, H=5)
### no compiler for sympy
from sympy import symbols
from sympy.utilities.autowrap import ufuncify
x = symbols('x')
try:
    ufuncify(x, x**2, backend='f2py')
except Exception:
    print('no compiler')
### mpmath
from mpmath import mp, mpf, quad, zeta, findroot, identify
mp.dps = 30
print(mp.pi, zeta(2), quad(lambda x: x**2, [0, 1]), findroot(lambda x: x**3 - 2, 1))
### random numbers of sympy
import sympy, random
random.seed(3); sympy.core.random.seed(3)
print(sympy.randprime(10, 100), sympy.randMatrix(2, seed=1))
### dynamic programming
def coins(total, kinds):
    ways = [1] + [0] * total
    for k in kinds:
        for t in range(k, total + 1):
            ways[t] += ways[t - k]
    return ways[total]
print(coins(100, (1, 5, 10, 25, 50)))
### a sieve
N = 10**6
s = bytearray([1]) * N
s[0:2] = b'\0\0'
for i in range(2, int(N**0.5) + 1):
    if s[i]: s[i*i::i] = bytes(len(range(i*i, N, i)))
print(sum(s))
### breadth-first search
from collections import deque
def shortest(start, goal):
    seen, todo = {start: 0}, deque([start])
    while todo:
        n = todo.popleft()
        if n == goal: return seen[n]
        for m in (n + 1, n * 2, n - 1):
            if 0 <= m <= 200 and m not in seen:
                seen[m] = seen[n] + 1
                todo.append(m)
print(shortest(1, 97))
### bits and bytes
import struct, array
print(struct.pack('<I', 7), array.array('i', [1, 2]).tobytes(), bin(10), (255).bit_count())
print(int.from_bytes(b'\x01\x00', 'big'))
### complex numbers
import cmath
print(abs(3 + 4j), cmath.sqrt(-1), complex('1+2j').conjugate(), [round(z.real, 6) for z in (1j**0, 1j**2)])
### output without a newline
import sys
sys.stdout.write('abc')
print('def', end='', flush=True)
### output to both streams
import sys
print('a'); print('b', file=sys.stderr); print('c')
### a global main block
def main():
    print(__name__)
if __name__ == '__main__':
    main()
### the names of the scope
x = 1
print('x' in globals(), 'x' in dir(), sorted(k for k in globals() if not k.startswith('_')))
### a server
import socket
try:
    socket.create_connection(('127.0.0.1', 9), timeout=1)
except OSError:
    print('no network')
### a download
import urllib.request, urllib.error
try:
    urllib.request.urlopen('http://no-such-host.invalid/', timeout=2)
except urllib.error.URLError:
    print('no internet')
'''


def snippets() -> Mapping[str, tuple[str, ...]]:
    """The programs by name, each as its calls."""
    named: dict[str, tuple[str, ...]] = {}
    for program in _TEXT.split("\n### ")[1:]:
        name, _, code = program.partition("\n")
        named[name] = tuple(cell.strip("\n") for cell in code.split("\n# %%\n"))
    return named
