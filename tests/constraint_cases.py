"""Schemas and grammars for test_constraints.py."""

S = {"type": "string"}
I = {"type": "integer"}
N = {"type": "number"}
B = {"type": "boolean"}


def obj(required=None, **properties):
    return {"type": "object", "properties": properties, "required": list(properties) if required is None else required}


SCHEMAS = [
    True, {}, S, I, N, B, {"type": "null"}, {"type": "object"}, {"type": "array"}, {"type": ["string", "null"]},
    {"type": ["integer", "boolean", "array"]}, {"type": ["number", "integer"]},
    {"type": ["object", "string"], "properties": {"a": I}},
    # objects
    obj(a=S), obj(name=S, age=I, tags={"type": "array", "items": S}), obj(required=[], a=I, b=S, c=B),
    obj(required=["b"], a=I, b=S, c=B), obj(required=["a"], a=I, b=S), obj(required=["c"], a=I, b=S, c=B),
    {"type": "object", "properties": {"a": I}, "additionalProperties": False},
    {"type": "object", "properties": {"a": I, "ab": B, "name": I, "\u00e9t\u00e9": I}, "additionalProperties": S},
    {"type": "object", "properties": {"id": I, "x\"y": B, "": I}, "required": ["id"], "additionalProperties": {"type": "null"}},
    {"type": "object", "additionalProperties": I}, {"type": "object", "additionalProperties": {"type": "array", "items": B}},
    {"type": "object", "properties": {"a": I, "b": False}, "additionalProperties": B}, {"type": "object", "required": ["a", "b"]},
    {"properties": {"a": I}, "required": ["a", "z", "z"], "additionalProperties": True},
    {"properties": {"\u007f": I, "\u0001": I, "日": I, "日本": I, "本": I, "\U0001f600": I}, "additionalProperties": B},
    {"properties": {"a" * 70: I, "a" * 61: I, "\\": B, "\\\"": B}, "additionalProperties": B}, {"required": ["z", "y", "z"]},
    {"type": ["null", "boolean", "number", "string", "array", "object"], "maxItems": 1, "maxLength": 9},
    {"type": "object", "additionalProperties": False}, obj(deep=obj(deeper=obj(deepest=I))),
    obj(**{"quote\"back\\slash\n": S, "日本": I}),
    # arrays
    {"type": "array", "items": I}, {"items": I, "minItems": 2}, {"items": I, "maxItems": 2},
    {"items": B, "minItems": 3, "maxItems": 5}, {"type": "array", "maxItems": 0}, {"type": "array", "minItems": 1},
    {"type": "array", "minItems": 1, "maxItems": 1, "items": N}, {"prefixItems": [I, S, B]}, {"prefixItems": [I, S], "items": B},
    {"prefixItems": [I, S], "items": False}, {"prefixItems": [I, S], "items": B, "minItems": 4, "maxItems": 5},
    {"prefixItems": [I, S], "minItems": 3}, {"prefixItems": [I, S], "maxItems": 1},
    {"type": "array", "items": {"type": "array", "items": I}}, {"prefixItems": [], "items": I},
    # values
    {"enum": ["red", "green", 3, None, True, 1.5, {"a": [1]}, "q\"uote"]}, {"type": "string", "enum": ["a", 1, "b"]},
    {"const": "abc"}, {"const": {"a": None}}, {"type": "integer", "const": 12}, {"const": "\n\\\u00e9\u0001"},
    # texts
    {"type": "string", "minLength": 3}, {"type": "string", "maxLength": 4}, {"minLength": 2, "maxLength": 3}, {"maxLength": 0},
    {"type": "string", "maxLength": 1000000}, {"pattern": "^[a-z]+$"}, {"pattern": "^(red|green)-\\d{2,3}$"}, {"pattern": "abc"},
    {"pattern": "^ab?c*"}, {"pattern": "x$"}, {"pattern": "^a|b$|c"}, {"pattern": "^\\w+@\\w+\\.[a-z]{2,3}$"},
    {"pattern": "^[^a-z]{2}$"}, {"pattern": "^[\"\\\\]+$"}, {"pattern": "^\\s.\\S\\W\\D$"}, {"pattern": "^[\\d\\-x]+?$"},
    {"pattern": "^(?:a|(b|)c)+$"}, {"pattern": "^\\u00e9[\\x41-\\x43]$"}, {"pattern": "^\\(\\d{3}\\)$"}, {"pattern": "^[^\\w]+$"},
    {"pattern": "^\\t\\n\\/$"}, {"pattern": "^a{2}b{1,}c{0,3}$"}, {"pattern": "^[\"-0]+[\\\\-a][~-\\x81]$"},
    {"pattern": "^[à-ÿ日\U0001f600-]{2}$"},
    {"pattern": "^[^\\x00-\\ud7ff]$"}, {"pattern": "^[^\\ue000-\U0010ffff\\x00-Z]$"}, {"pattern": "^\\r[\\s\\d]\\uFfFf?$"},
    {"pattern": "^[\\^\\]-]a??b*?c{2}?$"}, {"pattern": "^(a|)(|b)$|^$"},
    {"type": "string", "format": "date"}, {"type": "string", "format": "time"},
    {"format": "date-time"}, {"format": "uuid"},
    # numbers
    {"type": "integer", "minimum": 0}, {"type": "integer", "maximum": -5}, {"type": "integer", "minimum": 17, "maximum": 4321},
    {"type": "integer", "minimum": -17, "maximum": 321}, {"type": "integer", "minimum": -999, "maximum": -100},
    {"type": "integer", "minimum": 5, "maximum": 5}, {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10},
    {"type": "integer", "minimum": 0.5, "maximum": 12.5}, {"type": "integer", "minimum": 99999, "maximum": 100001},
    {"type": "number", "minimum": 0}, {"type": "number", "minimum": 0, "maximum": 1},
    {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 2}, {"type": "number", "minimum": -2.5, "maximum": 2.5},
    {"type": "number", "maximum": -1}, {"type": "number", "minimum": -10, "exclusiveMaximum": 0},
    {"type": "integer", "minimum": -999999999999999, "maximum": 999999999999999}, {"minimum": 3, "exclusiveMinimum": 3}, {"type": "number", "minimum": 7, "maximum": 7},
    # several
    {"anyOf": [I, S]}, {"anyOf": [obj(a=I), obj(b=S)]}, {"oneOf": [I, S, {"type": "null"}]},
    {"oneOf": [{"const": 1}, {"const": 2}]}, {"oneOf": [obj(kind={"const": "cat"}, lives=I), obj(kind={"const": "dog"}, good=B)]},
    {"oneOf": [{"type": "object", "properties": {"a": I}, "required": ["a"], "additionalProperties": False},
        {"type": "object", "properties": {"b": I}, "required": ["b"], "additionalProperties": False}]},
    {"type": "object", "properties": {"a": I, "b": S}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
    {"allOf": [obj(a=I), obj(b=S)]}, {"allOf": [{"type": "integer", "minimum": 3}, {"type": "number", "maximum": 9}]},
    {"allOf": [{"type": ["string", "null"]}, {"type": ["null", "integer"]}]},
    {"allOf": [{"enum": [1, 2, 3]}, {"enum": [2, 3, 4]}]},
    {"allOf": [obj(a={"minimum": 1}), obj(a={"maximum": 3, "type": "integer"})]},
    {"type": "string", "allOf": [{"minLength": 2}, {"maxLength": 5}]},
    {"allOf": [{"type": ["number", "null"]}, {"type": "integer"}]}, {"allOf": [{"type": ["number", "integer"]},
    {"type": ["integer", "number"]}]},
    {"allOf": [{"type": ["string", "integer"]}, {"type": ["integer", "null"]}]}, {"allOf": [True, I, True]},
    {"allOf": [{"items": {"minimum": 1}}, {"items": {"maximum": 3, "type": "integer"}}, {"items": True}]},
    {"allOf": [{"exclusiveMinimum": 1, "maximum": 9}, {"exclusiveMinimum": 2, "maximum": 8}, {"exclusiveMaximum": 7},
        {"exclusiveMaximum": 8, "exclusiveMinimum": 0}]},
    {"allOf": [{"additionalProperties": I}, {"additionalProperties": {"minimum": 3}}]},
    {"allOf": [{"additionalProperties": I}, {"additionalProperties": False}]}, {"allOf": [{"additionalProperties": False},
    {"additionalProperties": I}]},
    {"allOf": [{"properties": {"a": I}, "additionalProperties": True}, obj(b=S)]},
    {"allOf": [{"properties": {"a": I}, "additionalProperties": False}, {"properties": {"a": {"minimum": 1}}}]},
    {"allOf": [{"const": 1}, {"const": 1}]}, {"title": "T", "anyOf": [I, S], "description": "d"},
    {"allOf": [{"prefixItems": [I, S], "items": B}, {"minItems": 3}]},
    {"oneOf": [{"const": []}, {"const": {}}, {"enum": [1, "a"]}, {"enum": [2.5, None]}, {"const": "b"}]},
    {"oneOf": [{"type": "object", "properties": {"a": I}, "required": ["a"], "additionalProperties": False}, obj(b=S)]},
    {"oneOf": [obj(b=S), {"type": "object", "properties": {"a": I}, "required": ["a"], "additionalProperties": False}]},
    {"oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b", "title": "T"}], "$defs": {"a": I, "b": {"$ref": "#/$defs/c"}, "c": S}},
    # references
    {"$ref": "#/$defs/x", "$defs": {"x": I}},
    {"$defs": {"x": {"$ref": "#/$defs/y"}, "y": B}, "type": "array", "items": {"$ref": "#/$defs/x"}},
    {"$defs": {"node": {"type": "object", "properties": {"v": I, "next": {"anyOf": [{"$ref": "#/$defs/node"},
        {"type": "null"}]}}, "required": ["v", "next"]}}, "$ref": "#/$defs/node"},
    {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#"}, "maxItems": 2}}, "required": ["kids"]},
    {"definitions": {"a/b~c": S, "p%q": I}, "prefixItems": [{"$ref": "#/definitions/a~1b~0c"}, {"$ref": "#/definitions/p%25q"}]},
    {"definitions": {"é~2%4z": I, "%": B}, "prefixItems": [{"$ref": "#/definitions/%C3%a9~2%4z"}, {"$ref": "#/prefixItems/0"},
    {"$ref": "#/definitions/%"}]},
    {"$defs": {"base": obj(id=I)}, "$ref": "#/$defs/base", "properties": {"name": S}, "required": ["name"]},
    {"$defs": {"base": obj(id=I)}, "allOf": [{"$ref": "#/$defs/base"}, obj(extra={"$ref": "#/$defs/base"})]},
    {"title": "T", "description": "d", "default": 1, "examples": [1], "$comment": "c",
        "$schema": "https://json-schema.org/draft/2020-12/schema", **I}, {"type": "array", "uniqueItems": False, "items": B},
]

# The schema, and what its error must name.
BAD_SCHEMAS = [
    ({"not": {}}, "'not'"), ({"if": {}, "then": {}}, "'if'"), ({"patternProperties": {}}, "'patternProperties'"),
    ({"uniqueItems": True}, "'uniqueItems'"), ({"type": "number", "multipleOf": 3}, "'multipleOf'"),
    ({"type": "string", "format": "email"}, "email"), ({"type": "text"}, "'type'"), ({"type": []}, "'type'"),
    ({"properties": {"a": {"contains": {}}}}, r"#/properties/a: keyword 'contains'"),
    ({"items": {"anyOf": [{"x-y": 1}]}}, r"#/items/anyOf/0: keyword 'x-y'"), ({"$ref": "#/$defs/none"}, r"\$ref"),
    ({"$ref": "other.json"}, r"\$ref"), ({"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}, "back to itself"),
    ({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}}, "$ref": "#/$defs/a"}, "left-recursive"),
    ({"allOf": [{"$ref": "#"}]}, "back to itself"), (False, "false"), (3, "expected an object"),
    ({"properties": {"a": False}, "required": ["a"]}, "'a'"),
    ({"required": ["b"], "properties": {"a": {}}, "additionalProperties": False}, "'b'"),
    ({"type": "integer", "minimum": 5, "maximum": 4}, "minimum"), ({"type": "number", "minimum": 0.2, "maximum": 0.8}, "minimum"),
    ({"type": "integer", "minimum": 1e30}, "15 digits"), ({"minItems": -1}, "minItems"),
    ({"minItems": 3, "maxItems": 2}, "maxItems"), ({"minLength": 20000}, "minLength"),
    ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "oneOf"),
    ({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, "oneOf"), ({"anyOf": []}, "anyOf"),
    ({"allOf": [{"type": "string"}, {"type": "null"}]}, "no type in common"),
    ({"allOf": [{"prefixItems": [{"type": "string"}]}, {"items": {"type": "integer"}}]}, "items"),
    ({"allOf": [{"items": {"type": "integer"}}, {"prefixItems": [{"type": "string"}]}]}, "items"),
    ({"allOf": [{"pattern": "a"}, {"pattern": "b"}]}, "pattern"), ({"pattern": "(?=a)"}, "look-around"),
    ({"pattern": "(a"}, "does not end"), ({"pattern": "a**"}, "repetition"), ({"pattern": "a^b"}, "ends"),
    *(({"pattern": "a{" + numbers + "}"}, "repetition")
      for numbers in ("", ",3", "2{3", "3,2", "1,2,3", "10001", "1,4294967297", "-1")),
    ({"pattern": "\\1"}, "escape"), ({"pattern": "\\bx"}, "escape"), ({"pattern": "a", "minLength": 3}, "pattern"),
    ({"enum": []}, "no value"), ({"type": "string", "enum": [1]}, "no value"), ({"enum": [5], "minimum": 3}, "minimum"),
    ({"prefixItems": [{}], "items": False, "minItems": 2}, "minItems"),
    ({"additionalProperties": False, "properties": {"a": {}}, "allOf": [{"properties": {"b": {}}}]}, "additionalProperties"),
    # of another kind than a keyword has
    *(({keyword: 3}, rf"keyword '{keyword}': expected {words}") for keyword, words in [
        ("properties", "an object"), ("required", "an array"), ("enum", "an array"), ("allOf", "an array"), ("anyOf", "an array"),
        ("prefixItems", "an array"), ("pattern", "a text"), ("type", "the name"), ("format", "date")]),
    *(({keyword: "3"}, rf"keyword '{keyword}': expected a (whole )?number") for keyword in [
        "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems", "minLength", "maxLength"]),
    ({"required": [1]}, "expected texts"), ({"properties": {"a": I}, "required": [1]}, "expected texts"), ({"$ref": 3}, "no text"),
    ({"type": ["string", 3]}, "'type'"), ({"type": ["text", "string"]}, "'type'"), ({"minItems": 10001}, "at most 10000"),
    ({"minLength": 3, "maxLength": 2}, "maxLength"), ({"maximum": -1e30}, "15 digits"), ({"enum": [1], "const": 1}, "beside 'const'"),
    ({"const": 1, "minimum": 0}, "beside 'enum' or 'const'"), ({"type": "text", "const": 1}, "'type'"),
    ({"anyOf": [I], "oneOf": [I]}, "beside 'anyOf'"),
    *(({keyword: value}, f"#/{place}: expected an object") for keyword, value, place in [
        ("items", 3, "items"), ("prefixItems", [3], "prefixItems/0"), ("additionalProperties", 3, "additionalProperties"),
        ("properties", {"a": 3}, "properties/a"), ("anyOf", [3], "anyOf/0")]),
    ({"properties": {"a" * 300: {"properties": {"b": {"not": {}}}}}}, "a: keyword 'not'"),
    # references
    *(({"prefixItems": [{}], "$ref": ref}, "nothing in this schema is") for ref in [
        "", "#a", "#/prefixItems/x", "#/prefixItems/", "#/prefixItems/1", "#/prefixItems/0/a", "#/prefixItems/0/a/b", "#/" + "a" * 600]),
    ({"$defs": {"a": 3}, "allOf": [{"$ref": "#/$defs/a"}]}, "expected an object"),
    ({"$defs": {"a": {"$ref": "#/$defs/b"}}, "$ref": "#/$defs/a"}, "nothing in this schema is '#/\\$defs/b'"),
    ({"$defs": {f"a{i}": {} for i in range(4097)}, "prefixItems": [{"$ref": f"#/$defs/a{i}"} for i in range(4097)]}, "more than 4096"),
    # schemas that cannot be one
    ({"allOf": [3]}, "expected an object"), ({"allOf": [False]}, "false"), ({"allOf": [I, {"not": {}}]}, "'not'"),
    *(({"allOf": [{keyword: a}, {keyword: b}]}, f"'{keyword}': two of them") for keyword, good in [
        ("properties", {}), ("required", ["a"]), ("enum", [1]), ("minimum", 1), ("maximum", 1)] for a, b in [("a", good), (good, "a")]),
    ({"pattern": "a", "anyOf": [{"pattern": "b"}]}, "#/anyOf/0: keyword 'pattern'"),
    ({"allOf": [{"additionalProperties": I}, obj(a=I)]}, "additionalProperties"),
    ({"allOf": [{"type": 3}, {"type": "string"}]}, "no type in common"),
    # alternatives that may hold at once
    *(({"oneOf": alternatives}, "may hold at once") for alternatives in [
        [True, I], [I, True], [I, {}], [{}, I], [I, {"type": "text"}], [{"type": "text"}, I], [I, {"$ref": "#/none"}], [{"enum": 3},
        {"const": 4}],
        [{"const": 1}, {"const": 1.0}], [{"const": {"a": 1}}, {"const": {"b": 1}}], [{"enum": [1, [2]]}, {"enum": [[3], 4]}],
        [obj(a=I), obj(a=N)], [obj(a=I), obj(required=[], a=S)], [obj(a=I), obj(b=S)], [obj(required=["a"]), obj(a=S)],
        [obj(required=[1], a=I), obj(a=S)], [obj(required=[1], a=I), {**obj(a=S), "additionalProperties": False}],
        [obj(a=I), {**obj(a=I), "additionalProperties": False}], [I, N],
        [{**obj(a=I), "type": ["object", "null"]}, obj(a=S)], [obj(a=I), {**obj(a=S), "type": ["object", "null"]}]]),
    *(({"oneOf": alternatives}, "'a' is required") for alternatives in [[obj(a=False), obj(a=I)], [obj(a=I), obj(a=False)]]),
    # patterns
    *(({"pattern": pattern}, words) for pattern, words in [
        ("[a", "class does not end"), ("[a-", "class does not end"), ("[z-a]", "ends before"), ("[a-\\d]", "ends before"),
        ("[\\q]", "escape"),
        ("[a-\\q]", "escape"), ("\\", "backslash"), ("\\u12", "hexadecimal"), ("\\xg0", "hexadecimal"), ("\\x:", "hexadecimal"),
        ("\\xé", "hexadecimal"), ("\\uD800", "surrogate"), ("\\é", "escape"), ("(?", "look-around"), ("(?<a>b)", "look-around"),
        (")", "bracket"),
        ("a|b)", "bracket"), ("]", "bracket"), ("}", "bracket"), ("*", "nothing to repeat"), ("+", "nothing to repeat"),
        ("?", "nothing to repeat"),
        ("{2}", "nothing to repeat"), ("(a$)", "ends alone"), ("(^a)", "ends alone"), ("a$b", "ends alone"), ("a+{2}", "repetition of"),
        ("a?+", "repetition of"), ("a*??", "repetition of"), ("[\\x01]", "can be written"), ("\\f", "can be written"),
        ("\\v", "can be written"),
        ("[^\\x00-\U0010ffff]", "can be written"), ("[\\x7f]", "can be written"), ("(" * 61 + ")" * 61, "too deeply"),
        ("[" + "a" * 257 + "]", "too many ranges"), ("[" + "a" * 256 + "\\d]", "too many ranges"),
        ("[^" + "".join(chr(0x100 + 2 * i) for i in range(256)) + "]", "too many ranges")]),
]

# GBNF, and the same language as a Python regular expression.
GRAMMARS = [
    ('root ::= "yes" | "no"', r"yes|no"), ("root ::= [0-9]+", r"[0-9]+"), ('root ::= [a-z]* "!"', r"[a-z]*!"),
    ('root ::= "a"{2,4}', r"a{2,4}"), ('root ::= ("ab" | "c"){1,3}', r"(ab|c){1,3}"), ('root ::= [^a"]{3}', r'[^a"]{3}'),
    ("root ::= .{2}", r"(?s:.{2})"), ('root ::= ("a"*)* "b"', r"a*b"),
    ('root ::= item ("," " "? item)*\nitem ::= [a-c]+', r"[a-c]+(, ?[a-c]+)*"),
    ('root ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)?', r"-?(0|[1-9][0-9]*)(\.[0-9]+)?"),
    ('root ::= "\\"" ([^"\\\\\\n] | "\\\\" ["n\\\\])* "\\""', r'"([^"\\\n]|\\["n\\])*"'),
    ('root ::= "(" root ")" | "x"', r"\(*x\)*"), ('root ::= [\\u00e0-\\u00ff]+', "[\u00e0-\u00ff]+"),
    ('root ::= [\\U0001F600-\\U0001F64F] "x"', "[\U0001F600-\U0001F64F]x"), ('root ::= "日" [本語]', "日[本語]"),
    ('root ::= a b? c\na ::= "a" | ""\nb ::= "b"+\nc ::= "c"{0,2}', r"a?b*c{0,2}"),
    ('root ::= ("a" | "ab") ("c" | "bc")', r"(a|ab)(c|bc)"),
    ('root ::= [a-c]{0,5} "-" [\\x41-\\x43]{3,}', r"[a-c]{0,5}-[A-C]{3,}"),
    ('root ::= "the" (" " word){1,4}\nword ::= [a-z]{2,6}', r"the( [a-z]{2,6}){1,4}"),
    ('root ::= "1. " line "2. " line\nline ::= [^\\n]{1,20} "\\n"', r"1\. [^\n]{1,20}\n2\. [^\n]{1,20}\n"),
    ('root ::= (("a"? "b"?)+ "c"?)* "d"', r"[abc]*d"), ('root ::= "a"\n  | "b" # two\n  | ("c"\n "d")', r"a|b|cd"),
    ("root ::= [\\]\\-\\^x]+", r"[\]\-^x]+"), ('root ::= "\\t\\r\\n" | "\\x7e"', "\t\r\n|~"),
    ('root ::= tail\ntail ::= "x" tail | ""', r"x*"), ('root ::= s\ns ::= "a" s "b" | "a" s "c" | "-"', r"a*-[bc]*"),
    ("root ::= [a-cx-z]{3}", r"[a-cx-z]{3}"), ('root ::= "0x" [0-9a-fA-F]{1,8}', r"0x[0-9a-fA-F]{1,8}"),
    ('root ::= ("no" | "not" | "nothing") " "? "ing"?', r"(no|not|nothing) ?(ing)?"),
    ('root ::= d d ":" d d\nd ::= [0-9]', r"\d\d:\d\d"),
]
