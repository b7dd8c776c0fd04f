"""Random Jinja over the whole language that chat templates use: mostly well typed, now and then not.

GRAMMAR holds expressions by type. In them @s @i @f @b @l @d @e stand for expressions (string, integer, float, boolean, list, dict,
any), @[x y z] for one of the words, of which ~ is none, and @(2-5) for an integer."""

import re

TEXTS = ["", "a", " x ", "Hello World", "ünïcödé ß", "你好 🙂", "a\tb\nc", "<b>&'\"", "a,b,,c", "ÀÉ ǆ ΑΣ", "line one\nline two\n", "%s", "007",
         "3.5"]
VARIABLES = {
    "name": "  Ada Lovelace ", "word": "straße", "n": 3, "f": 2.5, "flag": True, "none_value": None, "empty": [],
    "words": ["pear", "Apple", "fig", "apple"], "numbers": [3, -1, 2, 7, 0], "user": {"name": "Bo", "age": 41, "tags": ["x", "y"]},
    "people": [{"name": "Cy", "age": 7, "on": True}, {"name": "di", "age": 30, "on": False}, {"name": "Al", "age": 7}],
    "messages": [{"role": "user", "content": "Hi <b> & \"you\""}, {"role": "assistant", "content": "ok 🙂"}],
    "tree": [{"v": 1, "kids": [{"v": 2, "kids": []}, {"v": 3, "kids": [{"v": 4, "kids": []}]}]}],
}
KNOWN = {"s": ["name", "word"], "i": ["n"], "f": ["f"], "b": ["flag"], "d": ["user"], "l": ["words", "numbers", "people", "messages", "empty"],
         "e": ["none_value", "unknown", "n", "name"]}
LEAVES = {
    "i": ["@(0-12)", "-@(1-3)"], "f": ["0.5", "-2.25", "1e3", "3.0", "10.125", "1e-7", "1e16"], "b": ["true", "False"],
    "l": ["[]", "[1, 2, 3]", "['b', 'A', 'c']", "(1, 'x')", "[[1, 'a'], [2, 'b']]"],
    "d": ["{}", "{'a': 1, 'b': [2]}", "{'k': 'v', 'items': none}"],
    "e": ["none", "5", "'v'", "2.5", "user.nothing"],
}
GRAMMAR = {
    "s": """(@s + @s)
(@s ~ @e)
(@s ~ @e ~ @e)
@s[@i:@i]
@s[::@[2 -1 -2]]
(@s if @b else @s)
(@s * @(0-3))
@s|@[upper lower title capitalize trim string escape safe urlencode striptags reverse e forceescape]
@s.@[strip lstrip rstrip upper lower title capitalize swapcase casefold]()
@s.@[strip lstrip rstrip](@s)
@s|replace(@s, @s)
@s.replace(@s, @s, @i)
@l|join(@s)
@e|string
@e|default(1)|tojson
@l|tojson(indent=@(0-3))
@d|tojson(sort_keys=true, separators=(',', ':'), ensure_ascii=@[true false])
@s|indent(@(0-4), @[true false], @[true false])
@s|center(@i)
@s|truncate(@(3-9), @[true false], '..', @(0-3))
'%s-%5.2f|%-4d|%x' % (@e, @f, @i, 255)
'{}|{:>6}|{x[0]}'.format(@e, @s, x=@s)
'{0!r}:{1:^9}:{0}'.format(@e, @s)
@s.@[center ljust rjust](@i, '*')
@s.zfill(@i)
@s.join(words)
@s.@[removeprefix removesuffix](@s)
@e|default(@s, @[true false])
'%(a)s' % dict(@d, a=@e)
@l|first
@s.expandtabs(@(0-5))""",
    "i": """(@i @[+ - * // %] @i)
(@i ** @(0-3))
(-@i)
@s|length
@l|@[length count]
@e|int(@i)
@s.@[find rfind count](@s)
@s.@[find rfind count index rindex](@s, @i, @i)
numbers|@[sum min max first last]
@i|abs
@s|wordcount
people|sum(attribute='age')
(@i @[and or] @i)
@l.@[index count](@e)
'@[0x1f 0b11 12 1_0]'|int(base=@[10 16 0 2])""",
    "f": """(@f @[+ - * / // %] @f)
(@f @[+ - * / // %] @i)
(@i / @i)
@f|round(@[-2 -1 0 1 2 3])
@f|round(1, '@[ceil floor common]')
@e|float(@f)
(@i ** -1)
@f|abs
@i|round(@[-2 -1 0 1])""",
    "b": """@e @[== !=] @e
@i @[< > <= >=] @i
@i @[< > <= >=] @f
@s @[< > <=] @s
@e is @[~ not] @[defined undefined none boolean true false integer float number]
@e is @[~ not] @[string mapping sequence iterable lower upper callable escaped odd even]
@s @[in in] @s
@s not in @s
@e in @l
@e not in @d
(not @b)
(@b @[and or] @b)
1 < @i <= 7
@i is divisibleby @(1-4)
@s.@[startswith endswith](@s)
@s.@[isalpha isdigit isalnum isspace isupper islower]()
@s.@[istitle isnumeric isdecimal isascii isidentifier isprintable]()
@e is @[eq ne equalto in](@l)
(@l @[< >] @l)""",
    "l": """[@e, @e, @e]
[@e]
(@e, @e)
(@l + @l)
@l[@[-3 -1 0 1 2]:@[~ 2 -1]]
@s.split(@[~ ',' none])
@s.rsplit(@[none ','], @[-1 0 1 2])
@s.split(@[none ','], @(0-2))
@s.splitlines(@[~ true])
@s.@[partition rpartition](@s)
range(@(0-5))|list
@l|@[sort unique reverse]|list
words|sort(case_sensitive=@[true false], reverse=@[true false])
people|sort(attribute='@[age name age,name on]')
people|map(attribute='@[name age on nope]')|list
people|map(attribute='on', default='?')|list
words|map('@[upper length title first]')|list
numbers|@[select reject]('@[odd even number]')|list
numbers|@[select reject]('@[gt lt eq >= divisibleby]', @(1-4))|list
people|@[selectattr rejectattr]('@[on age nope]')|list
people|@[selectattr rejectattr]('@[age name]', '@[equalto ne defined gt]', @[7 'Cy'])|list
@d.@[items keys values]()|list
@d|@[items list dictsort]|list
@l|batch(@(1-3), '-')|list
@l|slice(@(1-3)@[~ ,none ,0])|list
@s|list
people|groupby('@[age name on]'@[~ ,default=false])|list
@l * @(0-2)""",
    "d": """{'a': @e, @['b' 1 true]: @e}
dict(a=@e, b=@e)
dict(@d, c=@e)
dict([[1, @e], ['k', @e]])
people[0]
@d.copy()""",
    "e": """@d.@[a name nope]
@d.get(@['a' 'name'], @e)
user['@[name age tags nope]']
@l[@i]
@l|@[first last min max]
(@e if @b)
(@e @[and or] @e)
@e|default(@e)
people[@(0-2)].@[name age on]""",
}
IN_LOOPS = ["loop.@[index index0 revindex revindex0 length depth first last]", "loop.@[previtem nextitem]|default('-')", "loop.cycle(@e, @e)",
            "loop.changed(@e)"]
RULES = {kind: lines.split("\n") for kind, lines in GRAMMAR.items()}
LOOPS = [
    ("item", "@l"), ("item", "@l"), ("item", "@s"), ("item", "@d"), ("item", "range(4)"), ("item", "numbers|select('odd')"),
    ("key, value", "user.items()"), ("key, value", "@d|items"), ("(key, value)", "[(1, 2), (3, 4)]"), ("key, value", "people|groupby('age')")]
PLAIN = ["text ", "\n", "  \n  ", "a\n\n", " ", "é🙂\n", "{# note #}", "{#- gone -#}\n", "  ", "{% raw %} {{ x }}\n{% endraw %}", "}} %}", "{ { ",
         "\t"]


class Generator:
    def __init__(self, rng):
        self.rng = rng
        self.names = {kind: list(names) for kind, names in KNOWN.items()}
        self.loops = self.blocks = 0
        self.macros = []

    def pick(self, *options):
        return self.rng.choice(options)

    def chance(self, p):
        return self.rng.random() < p

    # ---- Expressions

    def fill(self, line, depth=2):
        def one(match):
            kind, words, low, high = match.groups()
            if kind:
                inner = self.expr(kind, depth)
                bare = re.fullmatch(r"[\w.]*", inner) or self.chance(0.1)  # else filters would take what stands behind them
                return inner if bare else f"({inner})"
            if words:
                return self.rng.choice(words.split(" ")).replace("~", "")
            return str(self.rng.randint(int(low), int(high)))

        return re.sub(r"@(?:([sifblde])|\[([^\]]*)\]|\((\d+)-(\d+)\))", one, line)

    def quoted(self, text):
        quote = self.pick("'", '"')
        for old, new in (("\\", "\\\\"), (quote, "\\" + quote), ("\n", self.pick("\\n", "\n")), ("\t", "\\t")):
            text = text.replace(old, new)
        return quote + text + quote

    def expr(self, kind="e", depth=3):
        if self.chance(0.015):
            kind = self.pick("s", "i", "l", "d", "e")
        if depth <= 0 or self.chance(0.25):
            return self.leaf(kind)
        if kind == "e":
            kind = self.pick("s", "s", "i", "f", "b", "l", "d", "e")
            if self.loops and self.chance(0.15):
                return self.fill(self.rng.choice(IN_LOOPS), depth - 1)
            if self.macros and self.chance(0.1):
                return self.fill(f"{self.rng.choice(self.macros)}(@e)", depth - 1)
        return self.fill(self.rng.choice(RULES[kind]), depth - 1)

    def leaf(self, kind):
        if self.names[kind] and self.chance(0.6):
            return self.rng.choice(self.names[kind])
        return self.quoted(self.rng.choice(TEXTS)) if kind == "s" else self.fill(self.rng.choice(LEAVES[kind]))

    # ---- Statements

    def tag(self, inside):
        return "{%" + self.pick("", "", "-", "+") + " " + self.fill(inside) + " " + self.pick("", "", "-", "+") + "%}"

    def text(self):
        return self.rng.choice(PLAIN)

    def body(self, depth):
        return "".join(self.statement(depth - 1) for _ in range(self.rng.randint(1, 3)))

    def scoped(self, depth, loops=None, more=(), alone=False):
        """A body whose new names do not outlive it. `alone`: a function, which sees no loop."""
        names, macros, before = self.names, self.macros, self.loops
        self.names = {kind: list(known) for kind, known in names.items()}
        self.names["e"] += more
        self.macros = [] if alone else list(macros)
        self.loops = 0 if alone else before + (loops or 0)
        body = self.body(depth)
        self.names, self.macros, self.loops = names, macros, before
        return body

    def target(self, kind):
        name = self.pick("a", "b", "c", "name", "n", "words", "item")
        if self.chance(0.8):
            for names in self.names.values():
                if name in names:
                    names.remove(name)
            self.names[kind].append(name)
        return name

    def statement(self, depth):
        if depth <= 0 or self.chance(0.45):
            output = "{{" + self.pick("", "-") + f" {self.expr()} " + self.pick("", "-") + "}}"
            return self.pick(output, output, output, self.text(), self.text() + output)
        return self.rng.choice((
            self.if_, self.if_, self.for_, self.for_, self.for_, self.set_, self.set_, self.set_block, self.macro, self.call, self.filter_block,
            self.with_, self.namespace, self.recursive, self.others, self.alone))(depth)

    def if_(self, depth):
        out = self.tag("if @b") + self.body(depth)
        for _ in range(self.pick(0, 0, 1, 2)):
            out += self.tag("elif @e") + self.body(depth)
        if self.chance(0.5):
            out += self.tag("else") + self.body(depth)
        return out + self.tag("endif")

    def for_(self, depth):
        target, over = self.rng.choice(LOOPS)
        first = "item" if "item" in target else "key"
        test = f" if {first} @[!=2 ==1 >0]" if self.chance(0.2) else f" if {first} is defined" if self.chance(0.1) else ""
        control = self.tag("if @b") + self.tag("@[break continue]") + self.tag("endif") if self.chance(0.25) else ""
        more = ["item"] if first == "item" else ["key", "value"]
        out = self.tag(f"for {target} in {over}{test}") + self.scoped(depth, 1, more) + control + self.pick("", self.text())
        if self.chance(0.3):
            out += self.tag("else") + self.scoped(depth)
        return out + self.tag("endfor")

    def set_(self, depth):
        if self.chance(0.15):
            return self.tag("set a, b = " + self.pick("1, 2", "(words, n)", "@l"))
        kind = self.pick("s", "i", "l", "d", "e")
        value = self.expr(kind)
        return self.tag(f"set {self.target(kind)} = {value}")

    def set_block(self, depth):
        filters = self.pick("", "", " | upper", " | trim | length", " | replace('a', 'b')")
        body = self.scoped(depth)
        return self.tag(f"set {self.target('s')}{filters}") + body + self.tag("endset")

    def macro(self, depth):
        name = self.pick("m1", "m2")
        extra = self.pick("", "{{ varargs }}", "{{ kwargs }}", "{{ caller() if caller }}", "{{ caller('q') if caller is defined }}")
        body = self.scoped(depth, more=["x", "y"], alone=True)
        self.macros = self.macros + [name]
        arguments = self.pick("", "1", "words", "1, 2", "y=3", "x=n, y=f", "1, 2, 3", "1, z=2")
        return self.tag(f"macro {name}(x, y=@e)") + body + extra + self.tag("endmacro") + "{{ " + f"{name}({arguments})" + " }}"

    def call(self, depth):
        if not self.macros:
            return self.others(depth)
        body = self.scoped(depth, alone=True)
        head = f"call{self.pick('', '(arg)', '(arg=1)')} {self.rng.choice(self.macros)}({self.pick('1', 'n, 2', '')})"
        return self.tag(head) + body + "{{ arg }}" + self.tag("endcall")

    def filter_block(self, depth):
        filters = self.pick("upper", "trim", "title", "indent(2)", "replace(name, n)", "trim | length", "escape")
        return self.tag("filter " + filters) + self.scoped(depth) + self.tag("endfilter")

    def with_(self, depth):
        return self.tag("with a = @e, b = @s") + self.scoped(depth, more=["a", "b"]) + self.tag("endwith")

    def namespace(self, depth):
        return (self.tag("set ns = namespace(k=@e, total=0)") + self.tag("for item in @l") + self.tag("set ns.total = ns.total + 1")
                + self.tag("set ns.k = @e") + self.tag("endfor") + "{{ ns.total }}{{ ns.k }}{{ ns.nope }}")

    def recursive(self, depth):
        return (self.tag("for node in tree recursive") + "{{ node.v }}@{{ loop.depth }}" + self.pick("", "{{ loop.index }}/{{ loop.length }}")
                + "[{{ loop(node.kids) }}]" + self.pick("", self.tag("else") + "none") + self.tag("endfor"))

    def alone(self, depth):
        """A body that sees nothing of what is around it."""
        names, self.names = self.names, {kind: list(known) for kind, known in KNOWN.items()}
        body = self.scoped(depth, alone=True)
        self.names = names
        self.blocks += 1
        return self.pick(self.tag(f"block b{self.blocks}") + body + self.tag("endblock"),
                         self.tag("generation") + body + self.tag("endgeneration"))

    def others(self, depth):
        return self.pick(
            "{% raw -%} {{ {% \n{%- endraw %}", self.tag("print n, name"), self.tag("set j = joiner('; ')") + "{{ j() }}a{{ j() }}b",
            self.tag("set cy = cycler('o', 'e')") + "{{ cy.next() }}{{ cy.current }}{{ cy.next() }}{{ cy.next() }}")

    def template(self):
        return "".join(self.statement(3) for _ in range(self.rng.randint(1, 2)))
