/* Filters that make text. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../base/c_locale.h"
#include "template_strings.h"

/* jinja2's soft_str: strings, markup or not, stay what they are. */
static const tn_tstr *soft_str(tn_trun *r, tn_tval v) {
    return tn_tstr_of(&r->m, v);
}

static tn_tval plain(tn_trun *r, const tn_tstr *s) {
    if (!s->markup) return tn_tstring(s);
    tn_tstr *copy = tn_talloc(&r->m, 1, sizeof *copy);
    *copy = *s;
    copy->markup = false;
    return tn_tstring(copy);
}

const tn_tstr *tn_tas_markup(tn_trun *r, const tn_tstr *s) {
    if (s->markup) return s;
    tn_tstr *copy = tn_talloc(&r->m, 1, sizeof *copy);
    *copy = *s;
    copy->markup = true;
    return copy;
}

static tn_tval like(tn_trun *r, const tn_tstr *s, tn_tval v) {
    return s->markup ? tn_tstring(tn_tas_markup(r, v.s)) : v;
}

/* ---- Case ---------------------------------------------------------------------------------------------- */

static tn_tval filter_upper(tn_trun *r, tn_tval self, const tn_tval *a) {
    (void)a;
    return tn_tto_case(r, soft_str(r, self), TN_CASE_UPPER);
}

static tn_tval filter_lower(tn_trun *r, tn_tval self, const tn_tval *a) {
    (void)a;
    return tn_tto_case(r, soft_str(r, self), TN_CASE_LOWER);
}

static tn_tval filter_capitalize(tn_trun *r, tn_tval self, const tn_tval *a) {
    (void)a;
    return tn_tto_case(r, soft_str(r, self), TN_CASE_CAPITALIZE);
}

static bool divides_words(uint32_t c) {
    return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || tn_tis_space(c);
}

/* A word's first character in upper case, the others, by themselves, in lower case. */
static void put_word(tn_trun *r, tn_tbuf *b, const tn_tstr *s, size_t begin, size_t end) {
    size_t second = begin;
    if (begin == end) return;
    tn_tnext_char(s, &second);
    tn_tcase_chars(b, s, begin, second, TN_CASE_UPPER);
    const tn_tstr *rest = tn_tstr_slice(&r->m, s, second, end);
    tn_tcase_chars(b, rest, 0, rest->n, TN_CASE_LOWER);
}

static tn_tval filter_title(tn_trun *r, tn_tval self, const tn_tval *a) {
    (void)a;
    const tn_tstr *s = soft_str(r, self);
    tn_tbuf b = {.m = &r->m};
    size_t begin = 0;
    for (size_t i = 0; i < s->n;) {
        size_t at = i;
        tn_tcharge(&r->m, 1);
        if (!divides_words(tn_tnext_char(s, &i))) continue;
        put_word(r, &b, s, begin, at);
        tn_tbuf_slice(&b, s, at, i);
        begin = i;
    }
    put_word(r, &b, s, begin, s->n);
    return tn_tbuf_done(&b);
}

/* ---- Stripping, cutting, laying out -------------------------------------------------------------------- */

static tn_tval filter_trim(tn_trun *r, tn_tval self, const tn_tval *a) {
    bool space = a[0].kind == TN_T_MISSING || a[0].kind == TN_T_NONE;
    return tn_tstring(tn_tstrip(r, soft_str(r, self), space ? NULL : tn_targ_str(r, a[0]), true, true));
}

static tn_tval filter_replace(tn_trun *r, tn_tval self, const tn_tval *a) {
    const tn_tstr *old = tn_tstr_of(&r->m, a[0]), *new = tn_tstr_of(&r->m, a[1]);
    return tn_treplace(r, tn_tstr_of(&r->m, self), old, new, tn_targ_int(r, tn_targ_some(a[2]), -1));
}

static tn_tval filter_center(tn_trun *r, tn_tval self, const tn_tval *a) {
    const tn_tstr *s = soft_str(r, self);
    return like(r, s,
                tn_tjustify(r, s, tn_targ_int(r, a[0], 80), tn_tliteral(&r->m, " ").s, TN_JUSTIFY_CENTER));
}

static const tn_tstr *indentation(tn_trun *r, tn_tval width) {
    if (width.kind == TN_T_STR) return width.s;
    tn_tbuf b = {.m = &r->m};
    tn_tbuf_repeat(&b, tn_tliteral(&r->m, " ").s, tn_targ_int(r, width, 4));
    return tn_tbuf_done(&b).s;
}

static tn_tval filter_indent(tn_trun *r, tn_tval self, const tn_tval *a) {
    const tn_tstr *indent = indentation(r, a[0]);
    bool first = tn_targ_truth(r, a[1], false), blank = tn_targ_truth(r, a[2], false);
    tn_tbuf whole = {.m = &r->m}, b = {.m = &r->m};
    tn_tbuf_str(&whole, tn_targ_str(r, self));
    tn_tbuf_text(&whole, "\n"); /* so that a last line that is empty is one */
    const tn_tlist *lines = tn_tsplit_lines(r, tn_tbuf_done(&whole).s, false);
    if (first) tn_tbuf_str(&b, indent);
    for (size_t i = 0; i < lines->n; i++) {
        if (i) tn_tbuf_text(&b, "\n");
        if (i && (blank || lines->v[i].s->n)) tn_tbuf_str(&b, indent);
        tn_tbuf_str(&b, lines->v[i].s);
    }
    return like(r, self.s, tn_tbuf_done(&b));
}

static tn_tval filter_truncate(tn_trun *r, tn_tval self, const tn_tval *a) {
    int64_t length = tn_targ_int(r, a[0], 255), leeway = tn_targ_int(r, tn_targ_some(a[3]), 5), n = 0;
    const tn_tstr *end = a[2].kind == TN_T_MISSING ? tn_tliteral(&r->m, "...").s : tn_targ_str(r, a[2]);
    if (length < (int64_t)end->n_chars)
        tn_tfail(&r->m, TN_ERR_FORMAT, "truncate: expected length >= %zu, got %lld", end->n_chars,
                 (long long)length);
    if (leeway < 0)
        tn_tfail(&r->m, TN_ERR_FORMAT, "truncate: expected leeway >= 0, got %lld", (long long)leeway);
    if (tn_tlength(self, &n) && (n <= leeway || n - leeway <= length)) return self;
    const tn_tstr *s = tn_targ_str(r, self);
    const tn_tstr *cut = tn_tstr_slice(&r->m, s, 0, tn_tstr_byte_of(s, (size_t)length - end->n_chars));
    if (!tn_targ_truth(r, a[1], false)) {
        size_t space = tn_tstr_rfind(&r->m, cut, 0, cut->n, tn_tliteral(&r->m, " ").s);
        if (space != SIZE_MAX) cut = tn_tstr_slice(&r->m, cut, 0, space);
    }
    tn_tbuf b = {.m = &r->m};
    tn_tbuf_str(&b, cut);
    tn_tbuf_str(&b, end);
    return like(r, s, tn_tbuf_done(&b));
}

static tn_tval filter_wordcount(tn_trun *r, tn_tval self, const tn_tval *a) {
    (void)a;
    const tn_tstr *s = soft_str(r, self);
    int64_t n = 0;
    bool in_word = false;
    for (size_t i = 0; i < s->n;) {
        bool word = tn_tis_word_char(tn_tnext_char(s, &i));
        n += word && !in_word;
        in_word = word;
        tn_tcharge(&r->m, 1);
    }
    return tn_tint(n);
}

/* ---- For HTML and addresses ---------------------------------------------------------------------------- */

static const char *reference_for(char c) {
    return c == '&'    ? "&amp;"
           : c == '<'  ? "&lt;"
           : c == '>'  ? "&gt;"
           : c == '\'' ? "&#39;"
           : c == '"'  ? "&#34;"
                       : NULL;
}

tn_tval tn_tescape(tn_trun *r, tn_tval v) {
    const tn_tstr *s = tn_tstr_of(&r->m, v);
    if (s->markup) return tn_tstring(s);
    tn_tbuf b = {.m = &r->m};
    size_t begin = 0;
    for (size_t i = 0; i < s->n; i++) {
        const char *reference = reference_for(s->p[i]);
        if (!reference) continue;
        tn_tbuf_slice(&b, s, begin, i);
        tn_tbuf_bytes(&b, reference, strlen(reference), tn_tstr_is_data(s, i));
        begin = i + 1;
    }
    tn_tbuf_slice(&b, s, begin, s->n);
    return tn_tstring(tn_tas_markup(r, tn_tbuf_done(&b).s));
}

static tn_tval filter_escape(tn_trun *r, tn_tval self, const tn_tval *a) {
    (void)a;
    return tn_tescape(r, self);
}

static tn_tval filter_forceescape(tn_trun *r, tn_tval self, const tn_tval *a) {
    (void)a;
    return tn_tescape(r, plain(r, tn_tstr_of(&r->m, self)));
}

static tn_tval filter_safe(tn_trun *r, tn_tval self, const tn_tval *a) {
    (void)a;
    return tn_tstring(tn_tas_markup(r, tn_tstr_of(&r->m, self)));
}

static tn_tval filter_string(tn_trun *r, tn_tval self, const tn_tval *a) {
    (void)a;
    return tn_tstring(soft_str(r, self));
}

/* The character that "&...;" at byte i stands for, and where it ends; 0 if it is none of the common ones. */
static uint32_t unescaped(const tn_tstr *s, size_t i, size_t *end) {
    static const struct {
        const char *text;
        uint32_t code;
    } references[] = {{"&amp;", '&'},  {"&lt;", '<'},    {"&gt;", '>'},
                      {"&quot;", '"'}, {"&apos;", '\''}, {"&nbsp;", 0xA0}};
    for (size_t k = 0; k < sizeof references / sizeof *references; k++) {
        size_t n = strlen(references[k].text);
        if (s->n - i < n || memcmp(s->p + i, references[k].text, n) != 0) continue;
        *end = i + n;
        return references[k].code;
    }
    if (s->n - i < 4 || s->p[i + 1] != '#') return 0;
    uint32_t code = 0;
    size_t at = i + 2;
    for (; at < s->n && s->p[at] >= '0' && s->p[at] <= '9' && code <= 0x10FFFF; at++)
        code = 10 * code + (uint32_t)(s->p[at] - '0');
    *end = at + 1;
    bool valid = at < s->n && s->p[at] == ';' && code >= 0x20 && code <= 0x10FFFF &&
                 (code < 0x7F || code >= 0xA0) && (code < 0xD800 || code >= 0xE000);
    return valid ? code : 0;
}

/* Where a tag or comment at byte i ends; i if it does not. */
static size_t tag_end(const tn_tstr *s, size_t i) {
    bool comment = s->n - i >= 4 && memcmp(s->p + i, "<!--", 4) == 0;
    const char *end =
        comment ? memmem(s->p + i + 4, s->n - i - 4, "-->", 3) : memchr(s->p + i, '>', s->n - i);
    return end ? (size_t)(end - s->p) + (comment ? 3 : 1) : i;
}

static tn_tval filter_striptags(tn_trun *r, tn_tval self, const tn_tval *a) {
    (void)a;
    const tn_tstr *s = tn_tstr_of(&r->m, self);
    tn_tbuf text = {.m = &r->m}, b = {.m = &r->m};
    for (size_t i = 0, end; i < s->n; i = end) {
        end = s->p[i] == '<' ? tag_end(s, i) : i;
        tn_tcharge(&r->m, 1 + (s->p[i] == '<' ? (s->n - i) / 64 : 0));
        if (end == i) tn_tbuf_slice(&text, s, i, ++end);
    }
    const tn_tlist *words = tn_tsplit(r, tn_tbuf_done(&text).s, NULL, -1, false);
    for (size_t k = 0; k < words->n; k++) {
        const tn_tstr *word = words->v[k].s;
        if (k) tn_tbuf_text(&b, " ");
        for (size_t i = 0, end; i < word->n; i = end) {
            uint32_t code = word->p[i] == '&' ? unescaped(word, i, &end) : 0;
            if (code)
                tn_tbuf_char(&b, code, tn_tstr_is_data(word, i));
            else
                tn_tbuf_slice(&b, word, i, end = i + 1);
        }
    }
    return tn_tbuf_done(&b);
}

static void put_quoted(tn_tbuf *b, const tn_tstr *s, bool for_query) {
    static const char hex[] = "0123456789ABCDEF", safe[] = "_.-~";
    for (size_t i = 0; i < s->n; i++) {
        uint8_t c = (uint8_t)s->p[i];
        bool letter = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        const char text[3] = {'%', hex[c >> 4], hex[c & 15]};
        tn_tcharge(b->m, 1);
        if (letter || (c && strchr(safe, c)) || (c == '/' && !for_query))
            tn_tbuf_slice(b, s, i, i + 1);
        else if (for_query && c == ' ')
            tn_tbuf_bytes(b, "+", 1, tn_tstr_is_data(s, i));
        else
            tn_tbuf_bytes(b, text, 3, tn_tstr_is_data(s, i));
    }
}

static tn_tval filter_urlencode(tn_trun *r, tn_tval self, const tn_tval *a) {
    (void)a;
    tn_tbuf b = {.m = &r->m};
    if (self.kind == TN_T_STR || !tn_tis_iterable(self)) {
        put_quoted(&b, tn_tstr_of(&r->m, self), false);
        return tn_tbuf_done(&b);
    }
    bool dict = self.kind == TN_T_DICT;
    const tn_tlist *items = tn_tto_list(r, self);
    for (size_t i = 0; i < items->n; i++) {
        const tn_tlist *pair = dict ? NULL : tn_tto_list(r, items->v[i]);
        if (pair && pair->n != 2) tn_tfail(&r->m, TN_ERR_FORMAT, "urlencode: expected pairs");
        if (i) tn_tbuf_text(&b, "&");
        put_quoted(&b, tn_tstr_of(&r->m, pair ? pair->v[0] : items->v[i]), true);
        tn_tbuf_text(&b, "=");
        put_quoted(&b, tn_tstr_of(&r->m, pair ? pair->v[1] : self.d->v[i].value), true);
    }
    return tn_tbuf_done(&b);
}

static tn_tval filter_xmlattr(tn_trun *r, tn_tval self, const tn_tval *a) {
    if (self.kind != TN_T_DICT) tn_tfail(&r->m, TN_ERR_FORMAT, "xmlattr: expected a mapping");
    tn_tbuf b = {.m = &r->m};
    for (size_t i = 0; i < self.d->n; i++) {
        const tn_tpair *pair = &self.d->v[i];
        if (pair->value.kind == TN_T_NONE || pair->value.kind == TN_T_UNDEFINED) continue;
        const tn_tstr *key = tn_targ_str(r, pair->key);
        for (size_t k = 0; k < key->n; k++)
            if (key->p[k] && strchr(" \t\n\r\f\v/>=", key->p[k]))
                tn_tfail(&r->m, TN_ERR_FORMAT, "xmlattr: invalid character in attribute name");
        if (b.n || tn_targ_truth(r, a[0], true)) tn_tbuf_text(&b, " ");
        tn_tbuf_str(&b, tn_tescape(r, pair->key).s);
        tn_tbuf_text(&b, "=\"");
        tn_tbuf_str(&b, tn_tescape(r, pair->value).s);
        tn_tbuf_text(&b, "\"");
    }
    return tn_tbuf_done(&b);
}

/* ---- Formats ------------------------------------------------------------------------------------------- */

static tn_tval filter_format(tn_trun *r, tn_tval self, const tn_targs *args) {
    if (args->n_positional && args->n_named)
        tn_tfail(&r->m, TN_ERR_FORMAT, "can't handle positional and keyword arguments at the same time");
    if (args->n_named) {
        tn_tdict *d = tn_tdict_new(&r->m, args->n_named);
        for (size_t i = 0; i < args->n_named; i++)
            tn_tdict_set(&r->m, d, tn_tstring(args->names[i]), args->named[i]);
        return tn_tpercent(r, soft_str(r, self), (tn_tval){.kind = TN_T_DICT, .d = d});
    }
    tn_tlist *l = tn_tlist_new(&r->m, args->n_positional);
    for (size_t i = 0; i < args->n_positional; i++) tn_tlist_add(&r->m, l, args->positional[i]);
    return tn_tpercent(r, soft_str(r, self), tn_ttuple_val(l));
}

static const tn_tstr *json_indent(tn_trun *r, tn_tval a) {
    if (a.kind == TN_T_MISSING || a.kind == TN_T_NONE) return NULL;
    return indentation(r, a);
}

static tn_tval filter_tojson(tn_trun *r, tn_tval self, const tn_tval *a) {
    tn_tjson_style style = {.ascii = tn_targ_truth(r, a[0], false), .indent = json_indent(r, a[1])};
    style.sort_keys = tn_targ_truth(r, a[3], false);
    style.item_separator = tn_tliteral(&r->m, style.indent ? "," : ", ").s;
    style.key_separator = tn_tliteral(&r->m, ": ").s;
    if (a[2].kind != TN_T_MISSING && a[2].kind != TN_T_NONE) {
        const tn_tlist *pair = tn_tto_list(r, a[2]);
        if (pair->n != 2) tn_tfail(&r->m, TN_ERR_FORMAT, "tojson: separators are a pair");
        style.item_separator = tn_targ_str(r, pair->v[0]);
        style.key_separator = tn_targ_str(r, pair->v[1]);
    }
    tn_tbuf b = {.m = &r->m};
    tn_tjson(r, &b, self, &style);
    return tn_tbuf_done(&b);
}

static tn_tval filter_filesizeformat(tn_trun *r, tn_tval self, const tn_tval *a) {
    bool binary = tn_targ_truth(r, a[0], false);
    tn_tval number = tn_tapply(r, tn_tfind_filter(tn_tliteral(&r->m, "float").s), self, &(tn_targs){0});
    double bytes = number.f, base = binary ? 1024 : 1000, unit = base * base;
    char text[64];
    if (bytes == 1) return tn_tliteral(&r->m, "1 Byte");
    if (bytes < base) {
        tn_snprintf(text, sizeof text, "%.0f Bytes", trunc(bytes));
    } else {
        int prefix = 0;
        for (; bytes >= unit && prefix < 7; prefix++) unit *= base;
        tn_snprintf(text, sizeof text, "%.1f %c%sB", base * bytes / unit,
                    (binary ? "KMGTPEZY" : "kMGTPEZY")[prefix], binary ? "i" : "");
    }
    tn_tbuf b = {.m = &r->m};
    tn_tbuf_text(&b, text);
    return tn_tbuf_done(&b);
}

const tn_tfunction tn_ttext_filters[] = {
    {"capitalize", "", filter_capitalize, NULL},
    {"center", "width?", filter_center, NULL},
    {"e", "", filter_escape, NULL},
    {"escape", "", filter_escape, NULL},
    {"filesizeformat", "binary?", filter_filesizeformat, NULL},
    {"forceescape", "", filter_forceescape, NULL},
    {"format", NULL, NULL, filter_format},
    {"indent", "width? first? blank?", filter_indent, NULL},
    {"lower", "", filter_lower, NULL},
    {"replace", "old new count?", filter_replace, NULL},
    {"safe", "", filter_safe, NULL},
    {"string", "", filter_string, NULL},
    {"striptags", "", filter_striptags, NULL},
    {"title", "", filter_title, NULL},
    {"tojson", "ensure_ascii? indent? separators? sort_keys?", filter_tojson, NULL},
    {"trim", "chars?", filter_trim, NULL},
    {"truncate", "length? killwords? end? leeway?", filter_truncate, NULL},
    {"upper", "", filter_upper, NULL},
    {"urlencode", "", filter_urlencode, NULL},
    {"wordcount", "", filter_wordcount, NULL},
    {"xmlattr", "autospace?", filter_xmlattr, NULL},
};
const size_t tn_n_ttext_filters = sizeof tn_ttext_filters / sizeof *tn_ttext_filters;
