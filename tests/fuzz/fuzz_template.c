/* Chat templates, and the JSON that they are given: a template, then messages, tools, and more variables. */
#include <string.h>

#include "fuzz.h"

static const char words[] =
    "`{{ ` }}`{% ` %}`{%- ` -%}`{# ` #}`for m in messages`endfor`if `elif `else`endif`set x = "
    "`set ns.x = `endset`macro f(a, b=1)`endmacro`call f(1)`endcall`filter upper`endfilter`generation"
    "`endgeneration`break`continue`raw`endraw`with a=1`endwith`block b`endblock`do `loop.index"
    "`loop.cycle(1,2)`loop(m)`recursive`namespace(x=0)`range(9)`range(10**9)`dict(a=1)`cycler(1,2)"
    "`joiner()`raise_exception('x')`strftime_now('%d %b %Y')`m['content']`m.role`tools`none`true`not "
    "` in ` is defined` is string` is mapping`|tojson(indent=2)`|length`|join(',')`|map(attribute='a')"
    "`|selectattr('role','equalto','user')`|groupby('role')`|sort`|dictsort`|batch(2)`|slice(2)`|unique"
    "`|replace('a','bb')`|truncate(5)`|indent(3)`|trim`|format(1)`|round(2)`|int`|float`|list`|items"
    "`.split(' ')`.strip()`.format(1,a=2)`.upper()`.startswith('a')`.items()`[::-1]`[1:2]` ~ ` + ` * "
    "` ** ` // ` % `'%s' % 1`(1,2)`[1,2]`{'a':1}`'x'*1000`self`\\u00e9`\n";

static const char *const messages =
    "[{\"role\": \"system\", \"content\": \"Be short.\"}, {\"role\": \"user\", \"content\": "
    "\"Hi <b> \\u00e9\"}, {\"role\": \"assistant\", \"content\": \"ok\", \"a\": [1, 2.5, null]}]";

static void render(const tern_template *t, const tern_conversation *talk) {
    char *text;
    size_t n;
    tern_error err;
    const tern_status s = tern_template_render(t, talk, &text, &n, &err);
    fuzz_check_status((int)s, &err);
    if (s) return;
    FUZZ_CHECK(text[n] == '\0');
    fuzz_touch(text, n);
    tern_free(text);
}

static void run(const uint8_t *data, size_t n) {
    fuzz_bytes parts[FUZZ_MAX_PARTS];
    const size_t n_parts = fuzz_split(data, n, parts);
    tern_template_options options;
    tern_conversation talk;
    tern_template *t;
    tern_error err;
    tern_template_options_defaults(&options);
    options.source = parts[0].n ? (const char *)parts[0].data : "";
    options.n_source = parts[0].n;
    options.bos = "<s>";
    const tern_status s = tern_template_open(&options, &t, &err);
    fuzz_check_status((int)s, &err);
    FUZZ_CHECK(!s == (t != NULL));
    if (s) return;
    tern_conversation_defaults(&talk);
    talk.messages = n_parts > 1 && parts[1].n ? fuzz_text(parts[1]) : messages;
    if (n_parts > 2) talk.tools = fuzz_text(parts[2]);
    if (n_parts > 3) talk.variables = fuzz_text(parts[3]);
    render(t, &talk);
    tern_template_free(t);
}

const fuzz_target fuzz_template = {"template", run, NULL, words, 8192};
