/* Methods of strings, as Python's str has them; positions count code points. */
#include <string.h>

#include "template_strings.h"

/* A result is markup if the object was. */
static tn_tval like(tn_trun *r, tn_tval self, tn_tval v) {
    return self.s->markup && !v.s->markup ? tn_tstring(tn_tas_markup(r, v.s)) : v;
}

/* ---- Case and classes ---------------------------------------------------------------------------------- */

#define CASE_METHOD(name, to)                                                                                \
    static tn_tval name(tn_trun *r, tn_tval self, const tn_tval *a) {                                        \
        (void)a;                                                                                             \
        return tn_tto_case(r, self.s, to);                                                                   \
    }
CASE_METHOD(str_upper, TN_CASE_UPPER)
CASE_METHOD(str_lower, TN_CASE_LOWER)
CASE_METHOD(str_title, TN_CASE_TITLE)
CASE_METHOD(str_capitalize, TN_CASE_CAPITALIZE)
CASE_METHOD(str_swapcase, TN_CASE_SWAP)
CASE_METHOD(str_casefold, TN_CASE_FOLD)

#define CLASS_METHOD(name, class)                                                                            \
    static tn_tval name(tn_trun *r, tn_tval self, const tn_tval *a) {                                        \
        (void)a;                                                                                             \
        return tn_tbool(tn_tis_class(r, self.s, class));                                                     \
    }
CLASS_METHOD(str_isalpha, TN_CLASS_ALPHA)
CLASS_METHOD(str_isalnum, TN_CLASS_ALNUM)
CLASS_METHOD(str_isascii, TN_CLASS_ASCII)
CLASS_METHOD(str_isdecimal, TN_CLASS_DECIMAL)
CLASS_METHOD(str_isdigit, TN_CLASS_DIGIT)
CLASS_METHOD(str_isnumeric, TN_CLASS_NUMERIC)
CLASS_METHOD(str_islower, TN_CLASS_LOWER)
CLASS_METHOD(str_isupper, TN_CLASS_UPPER)
CLASS_METHOD(str_istitle, TN_CLASS_TITLE)
CLASS_METHOD(str_isspace, TN_CLASS_SPACE)
CLASS_METHOD(str_isprintable, TN_CLASS_PRINTABLE)
CLASS_METHOD(str_isidentifier, TN_CLASS_IDENTIFIER)

/* ---- Stripping ----------------------------------------------------------------------------------------- */

static bool is_stripped(uint32_t code, const tn_tstr *chars) {
    if (!chars) return tn_tis_space(code);
    for (size_t i = 0; i < chars->n;)
        if (tn_tnext_char(chars, &i) == code) return true;
    return false;
}

const tn_tstr *tn_tstrip(tn_trun *r, const tn_tstr *s, const tn_tstr *chars, bool left, bool right) {
    size_t begin = 0, end = s->n;
    for (size_t next = 0; left && begin < end && is_stripped(tn_tnext_char(s, &next), chars); begin = next)
        tn_tcharge(&r->m, 1 + (chars ? chars->n : 0));
    while (right && end > begin) {
        size_t at = end - 1;
        while (((uint8_t)s->p[at] & 0xC0) == 0x80) at--;
        size_t next = at;
        tn_tcharge(&r->m, 1 + (chars ? chars->n : 0));
        if (!is_stripped(tn_tnext_char(s, &next), chars)) break;
        end = at;
    }
    return tn_tstr_slice(&r->m, s, begin, end);
}

static const tn_tstr *optional_str(tn_trun *r, tn_tval a) {
    return a.kind == TN_T_MISSING || a.kind == TN_T_NONE ? NULL : tn_targ_str(r, a);
}

static tn_tval str_strip(tn_trun *r, tn_tval self, const tn_tval *a) {
    return tn_tstring(tn_tstrip(r, self.s, optional_str(r, a[0]), true, true));
}

static tn_tval str_lstrip(tn_trun *r, tn_tval self, const tn_tval *a) {
    return tn_tstring(tn_tstrip(r, self.s, optional_str(r, a[0]), true, false));
}

static tn_tval str_rstrip(tn_trun *r, tn_tval self, const tn_tval *a) {
    return tn_tstring(tn_tstrip(r, self.s, optional_str(r, a[0]), false, true));
}

/* ---- Searching ----------------------------------------------------------------------------------------- */

/* The bytes between the positions a[1] and a[2]. False where Python finds not even an empty string: behind the end. */
static bool search_bounds(tn_trun *r, const tn_tstr *s, const tn_tval *a, size_t *begin, size_t *end) {
    int64_t n = (int64_t)s->n_chars, from = tn_targ_int(r, tn_targ_some(a[1]), 0),
            to = tn_targ_int(r, tn_targ_some(a[2]), n);
    if (from < 0) from = from < -n ? 0 : from + n;
    if (to < 0) to = to < -n ? 0 : to + n;
    if (to > n) to = n;
    if (from > to) return false;
    tn_tcharge(&r->m, s->n / 64);
    *begin = tn_tstr_byte_of(s, (size_t)from);
    *end = tn_tstr_byte_of(s, (size_t)to);
    return true;
}

/* The position, or -1. */
static int64_t search(tn_trun *r, tn_tval self, const tn_tval *a, bool last) {
    size_t begin, end, found = SIZE_MAX;
    const tn_tstr *what = tn_targ_str(r, a[0]);
    if (search_bounds(r, self.s, a, &begin, &end))
        found = last ? tn_tstr_rfind(&r->m, self.s, begin, end, what)
                     : tn_tstr_find(&r->m, self.s, begin, end, what);
    return found == SIZE_MAX ? -1 : (int64_t)tn_tstr_char_of(self.s, found);
}

static tn_tval str_find(tn_trun *r, tn_tval self, const tn_tval *a) {
    return tn_tint(search(r, self, a, false));
}

static tn_tval str_rfind(tn_trun *r, tn_tval self, const tn_tval *a) {
    return tn_tint(search(r, self, a, true));
}

static tn_tval index_of(tn_trun *r, tn_tval self, const tn_tval *a, bool last) {
    int64_t at = search(r, self, a, last);
    if (at < 0) tn_tfail(&r->m, TN_ERR_FORMAT, "substring not found");
    return tn_tint(at);
}

static tn_tval str_index(tn_trun *r, tn_tval self, const tn_tval *a) {
    return index_of(r, self, a, false);
}

static tn_tval str_rindex(tn_trun *r, tn_tval self, const tn_tval *a) {
    return index_of(r, self, a, true);
}

static tn_tval str_count(tn_trun *r, tn_tval self, const tn_tval *a) {
    size_t begin, end;
    int64_t n = 0;
    const tn_tstr *what = tn_targ_str(r, a[0]);
    if (!search_bounds(r, self.s, a, &begin, &end)) return tn_tint(0);
    if (what->n == 0)
        return tn_tint((int64_t)(tn_tstr_char_of(self.s, end) - tn_tstr_char_of(self.s, begin)) + 1);
    for (size_t at; (at = tn_tstr_find(&r->m, self.s, begin, end, what)) != SIZE_MAX; begin = at + what->n)
        n++;
    return tn_tint(n);
}

static bool affix_is(const tn_tstr *s, size_t begin, size_t end, const tn_tstr *what, bool at_end) {
    if (what->n > end - begin) return false;
    return memcmp(s->p + (at_end ? end - what->n : begin), what->p, what->n) == 0;
}

static tn_tval has_affix(tn_trun *r, tn_tval self, const tn_tval *a, bool at_end) {
    size_t begin, end;
    const bool inside = search_bounds(r, self.s, a, &begin, &end);
    if (a[0].kind != TN_T_TUPLE) {
        const tn_tstr *what = tn_targ_str(r, a[0]);
        return tn_tbool(inside && affix_is(self.s, begin, end, what, at_end));
    }
    for (size_t i = 0; i < a[0].l->n; i++) {
        const tn_tstr *what = tn_targ_str(r, a[0].l->v[i]);
        if (inside && affix_is(self.s, begin, end, what, at_end)) return tn_tbool(true);
    }
    return tn_tbool(false);
}

static tn_tval str_startswith(tn_trun *r, tn_tval self, const tn_tval *a) {
    return has_affix(r, self, a, false);
}

static tn_tval str_endswith(tn_trun *r, tn_tval self, const tn_tval *a) {
    return has_affix(r, self, a, true);
}

static tn_tval str_removeprefix(tn_trun *r, tn_tval self, const tn_tval *a) {
    const tn_tstr *what = tn_targ_str(r, a[0]);
    if (!affix_is(self.s, 0, self.s->n, what, false)) return self;
    return tn_tstring(tn_tstr_slice(&r->m, self.s, what->n, self.s->n));
}

static tn_tval str_removesuffix(tn_trun *r, tn_tval self, const tn_tval *a) {
    const tn_tstr *what = tn_targ_str(r, a[0]);
    if (!affix_is(self.s, 0, self.s->n, what, true)) return self;
    return tn_tstring(tn_tstr_slice(&r->m, self.s, 0, self.s->n - what->n));
}

/* ---- Splitting ----------------------------------------------------------------------------------------- */

static void add_slice(tn_trun *r, tn_tlist *l, const tn_tstr *s, size_t begin, size_t end) {
    tn_tlist_add(&r->m, l, tn_tstring(tn_tstr_slice(&r->m, s, begin, end)));
}

static void reverse_list(tn_tlist *l) {
    for (size_t i = 0; i < l->n / 2; i++) {
        tn_tval v = l->v[i];
        l->v[i] = l->v[l->n - 1 - i];
        l->v[l->n - 1 - i] = v;
    }
}

static size_t skip_class(tn_trun *r, const tn_tstr *s, size_t i, bool space) {
    for (size_t next = i; i < s->n; i = next) {
        tn_tcharge(&r->m, 1);
        if (tn_tis_space(tn_tnext_char(s, &next)) != space) break;
    }
    return i;
}

/* At runs of white space; those at the ends make no empty parts, but stay in a last part that is left unsplit. */
static tn_tlist *split_space(tn_trun *r, const tn_tstr *s, int64_t most) {
    tn_tlist *l = tn_tlist_new(&r->m, 0);
    for (size_t end = 0;;) {
        size_t begin = skip_class(r, s, end, true);
        if (begin == s->n) return l;
        end = most-- == 0 ? s->n : skip_class(r, s, begin, false);
        add_slice(r, l, s, begin, end);
    }
}

static tn_tlist *rsplit_space(tn_trun *r, const tn_tstr *s, int64_t most) {
    tn_tlist *l = tn_tlist_new(&r->m, 0), *all = split_space(r, s, -1);
    size_t end = tn_tstrip(r, s, NULL, false, true)->n;
    for (size_t i = all->n; i-- > 0;) {
        if (most-- == 0) {
            add_slice(r, l, s, 0, end);
            break;
        }
        tn_tlist_add(&r->m, l, all->v[i]);
        end = tn_tstrip(r, tn_tstr_slice(&r->m, s, 0, end - all->v[i].s->n), NULL, false, true)->n;
    }
    reverse_list(l);
    return l;
}

tn_tlist *tn_tsplit(tn_trun *r, const tn_tstr *s, const tn_tstr *separator, int64_t most, bool from_right) {
    if (!separator) return from_right ? rsplit_space(r, s, most) : split_space(r, s, most);
    if (separator->n == 0) tn_tfail(&r->m, TN_ERR_FORMAT, "empty separator");
    tn_tlist *l = tn_tlist_new(&r->m, 0);
    size_t begin = 0, end = s->n;
    for (size_t at; most-- != 0;) {
        at = from_right ? tn_tstr_rfind(&r->m, s, begin, end, separator)
                        : tn_tstr_find(&r->m, s, begin, end, separator);
        if (at == SIZE_MAX) break;
        add_slice(r, l, s, from_right ? at + separator->n : begin, from_right ? end : at);
        if (from_right)
            end = at;
        else
            begin = at + separator->n;
    }
    add_slice(r, l, s, begin, end);
    if (from_right) reverse_list(l);
    return l;
}

static tn_tval str_split(tn_trun *r, tn_tval self, const tn_tval *a) {
    return tn_tlist_val(tn_tsplit(r, self.s, optional_str(r, a[0]), tn_targ_int(r, a[1], -1), false));
}

static tn_tval str_rsplit(tn_trun *r, tn_tval self, const tn_tval *a) {
    return tn_tlist_val(tn_tsplit(r, self.s, optional_str(r, a[0]), tn_targ_int(r, a[1], -1), true));
}

static bool is_line_end(uint32_t c) {
    return (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

tn_tlist *tn_tsplit_lines(tn_trun *r, const tn_tstr *s, bool keep_ends) {
    tn_tlist *l = tn_tlist_new(&r->m, 0);
    size_t begin = 0;
    for (size_t i = 0; i < s->n;) {
        size_t at = i;
        uint32_t code = tn_tnext_char(s, &i);
        if (!is_line_end(code)) continue;
        if (code == '\r' && i < s->n && s->p[i] == '\n') i++;
        add_slice(r, l, s, begin, keep_ends ? i : at);
        begin = i;
    }
    if (begin < s->n) add_slice(r, l, s, begin, s->n);
    return l;
}

static tn_tval str_splitlines(tn_trun *r, tn_tval self, const tn_tval *a) {
    return tn_tlist_val(tn_tsplit_lines(r, self.s, tn_targ_truth(r, a[0], false)));
}

static tn_tval partition(tn_trun *r, tn_tval self, const tn_tval *a, bool last) {
    const tn_tstr *s = self.s, *what = tn_targ_str(r, a[0]);
    if (what->n == 0) tn_tfail(&r->m, TN_ERR_FORMAT, "empty separator");
    size_t at = last ? tn_tstr_rfind(&r->m, s, 0, s->n, what) : tn_tstr_find(&r->m, s, 0, s->n, what);
    bool found = at != SIZE_MAX;
    size_t begin = found ? at : last ? 0 : s->n, end = found ? at + what->n : begin;
    tn_tlist *l = tn_tlist_new(&r->m, 3);
    add_slice(r, l, s, 0, begin);
    add_slice(r, l, s, begin, end);
    add_slice(r, l, s, end, s->n);
    return tn_ttuple_val(l);
}

static tn_tval str_partition(tn_trun *r, tn_tval self, const tn_tval *a) {
    return partition(r, self, a, false);
}

static tn_tval str_rpartition(tn_trun *r, tn_tval self, const tn_tval *a) {
    return partition(r, self, a, true);
}

/* ---- Making new ones ----------------------------------------------------------------------------------- */

static tn_tval str_join(tn_trun *r, tn_tval self, const tn_tval *a) {
    tn_tbuf b = {.m = &r->m};
    tn_titer *it = tn_titerate(r, a[0]);
    size_t n = 0;
    for (tn_tval item; tn_titer_next(r, it, &item); n++) {
        if (self.s->markup) item = tn_tescape(r, item);
        if (item.kind != TN_T_STR)
            tn_tfail(&r->m, TN_ERR_FORMAT, "sequence item %zu: expected str instance, %s found", n,
                     tn_ttype_name(item));
        if (n) tn_tbuf_str(&b, self.s);
        tn_tbuf_str(&b, item.s);
    }
    return like(r, self, tn_tbuf_done(&b));
}

tn_tval tn_treplace(tn_trun *r, const tn_tstr *s, const tn_tstr *old, const tn_tstr *new, int64_t most) {
    tn_tbuf b = {.m = &r->m};
    size_t begin = 0;
    while (most-- != 0 && begin <= s->n) {
        size_t at = tn_tstr_find(&r->m, s, begin, s->n, old);
        if (at == SIZE_MAX) break;
        tn_tbuf_slice(&b, s, begin, at);
        tn_tbuf_str(&b, new);
        begin = at + old->n;
        if (old->n) continue;
        if (at == s->n) return tn_tbuf_done(&b); /* between all characters and at both ends */
        tn_tnext_char(s, &begin);
        tn_tbuf_slice(&b, s, at, begin);
        tn_tcharge(&r->m, 1);
    }
    tn_tbuf_slice(&b, s, begin, s->n);
    return tn_tbuf_done(&b);
}

static tn_tval str_replace(tn_trun *r, tn_tval self, const tn_tval *a) {
    const tn_tstr *old = tn_targ_str(r, a[0]), *new = tn_targ_str(r, a[1]);
    if (self.s->markup) new = tn_tescape(r, a[1]).s;
    return like(r, self, tn_treplace(r, self.s, old, new, tn_targ_int(r, a[2], -1)));
}

tn_tval tn_tjustify(tn_trun *r, const tn_tstr *s, int64_t width, const tn_tstr *fill, tn_tjustify_side side) {
    if (fill->n_chars != 1)
        tn_tfail(&r->m, TN_ERR_FORMAT, "the fill character must be exactly one character long");
    if (width <= (int64_t)s->n_chars) return tn_tstring(s);
    const int64_t room = width - (int64_t)s->n_chars;
    int64_t left = side == TN_JUSTIFY_RIGHT    ? room
                   : side == TN_JUSTIFY_CENTER ? room / 2 + (room & width & 1)
                                               : 0;
    tn_tbuf b = {.m = &r->m};
    tn_tbuf_repeat(&b, fill, left);
    tn_tbuf_str(&b, s);
    tn_tbuf_repeat(&b, fill, room - left);
    return tn_tbuf_done(&b);
}

static tn_tval justify(tn_trun *r, tn_tval self, const tn_tval *a, tn_tjustify_side side) {
    const tn_tstr *fill = optional_str(r, a[1]);
    if (!fill) fill = tn_tliteral(&r->m, " ").s;
    return like(r, self, tn_tjustify(r, self.s, tn_targ_int(r, a[0], 0), fill, side));
}

static tn_tval str_center(tn_trun *r, tn_tval self, const tn_tval *a) {
    return justify(r, self, a, TN_JUSTIFY_CENTER);
}

static tn_tval str_ljust(tn_trun *r, tn_tval self, const tn_tval *a) {
    return justify(r, self, a, TN_JUSTIFY_LEFT);
}

static tn_tval str_rjust(tn_trun *r, tn_tval self, const tn_tval *a) {
    return justify(r, self, a, TN_JUSTIFY_RIGHT);
}

static tn_tval str_zfill(tn_trun *r, tn_tval self, const tn_tval *a) {
    const int64_t width = tn_targ_int(r, a[0], 0);
    if (width <= (int64_t)self.s->n_chars) return self;
    const int64_t room = width - (int64_t)self.s->n_chars;
    size_t sign = self.s->n && (self.s->p[0] == '-' || self.s->p[0] == '+');
    tn_tbuf b = {.m = &r->m};
    tn_tbuf_slice(&b, self.s, 0, sign);
    tn_tbuf_repeat(&b, tn_tliteral(&r->m, "0").s, room);
    tn_tbuf_slice(&b, self.s, sign, self.s->n);
    return like(r, self, tn_tbuf_done(&b));
}

static tn_tval str_expandtabs(tn_trun *r, tn_tval self, const tn_tval *a) {
    const int64_t size = tn_targ_int(r, a[0], 8);
    const tn_tstr *space = tn_tliteral(&r->m, " ").s;
    tn_tbuf b = {.m = &r->m};
    int64_t column = 0;
    for (size_t i = 0; i < self.s->n;) {
        size_t begin = i;
        uint32_t code = tn_tnext_char(self.s, &i);
        if (code == '\t') {
            int64_t n = size > 0 ? size - column % size : 0;
            tn_tbuf_repeat(&b, space, n);
            column += n;
        } else {
            tn_tbuf_slice(&b, self.s, begin, i);
            column = code == '\n' || code == '\r' ? 0 : column + 1;
        }
    }
    return like(r, self, tn_tbuf_done(&b));
}

static tn_tval str_format(tn_trun *r, tn_tval self, const tn_targs *args) {
    return tn_tstr_format(r, self.s, args);
}

static tn_tval str_format_map(tn_trun *r, tn_tval self, const tn_tval *a) {
    if (a[0].kind != TN_T_DICT) tn_tfail(&r->m, TN_ERR_FORMAT, "format_map() expects a mapping");
    const tn_tdict *d = a[0].d;
    const tn_tstr **names = tn_talloc(&r->m, d->n, sizeof *names);
    tn_tval *values = tn_talloc(&r->m, d->n, sizeof *values);
    tn_targs args = {.named = values, .names = names};
    for (size_t i = 0; i < d->n; i++) {
        if (d->v[i].key.kind != TN_T_STR) continue;
        names[args.n_named] = d->v[i].key.s;
        values[args.n_named++] = d->v[i].value;
    }
    return tn_tstr_format(r, self.s, &args);
}

const tn_tfunction tn_tstr_methods[] = {
    {"upper", "", str_upper, NULL},
    {"lower", "", str_lower, NULL},
    {"title", "", str_title, NULL},
    {"capitalize", "", str_capitalize, NULL},
    {"swapcase", "", str_swapcase, NULL},
    {"casefold", "", str_casefold, NULL},
    {"isalpha", "", str_isalpha, NULL},
    {"isalnum", "", str_isalnum, NULL},
    {"isascii", "", str_isascii, NULL},
    {"isdecimal", "", str_isdecimal, NULL},
    {"isdigit", "", str_isdigit, NULL},
    {"isnumeric", "", str_isnumeric, NULL},
    {"islower", "", str_islower, NULL},
    {"isupper", "", str_isupper, NULL},
    {"istitle", "", str_istitle, NULL},
    {"isspace", "", str_isspace, NULL},
    {"isprintable", "", str_isprintable, NULL},
    {"isidentifier", "", str_isidentifier, NULL},
    {"strip", "chars?", str_strip, NULL},
    {"lstrip", "chars?", str_lstrip, NULL},
    {"rstrip", "chars?", str_rstrip, NULL},
    {"find", "sub start? end?", str_find, NULL},
    {"rfind", "sub start? end?", str_rfind, NULL},
    {"index", "sub start? end?", str_index, NULL},
    {"rindex", "sub start? end?", str_rindex, NULL},
    {"count", "sub start? end?", str_count, NULL},
    {"startswith", "prefix start? end?", str_startswith, NULL},
    {"endswith", "suffix start? end?", str_endswith, NULL},
    {"removeprefix", "prefix", str_removeprefix, NULL},
    {"removesuffix", "suffix", str_removesuffix, NULL},
    {"split", "sep? maxsplit?", str_split, NULL},
    {"rsplit", "sep? maxsplit?", str_rsplit, NULL},
    {"splitlines", "keepends?", str_splitlines, NULL},
    {"partition", "sep", str_partition, NULL},
    {"rpartition", "sep", str_rpartition, NULL},
    {"join", "iterable", str_join, NULL},
    {"replace", "old new count?", str_replace, NULL},
    {"center", "width fillchar?", str_center, NULL},
    {"ljust", "width fillchar?", str_ljust, NULL},
    {"rjust", "width fillchar?", str_rjust, NULL},
    {"zfill", "width", str_zfill, NULL},
    {"expandtabs", "tabsize?", str_expandtabs, NULL},
    {"format", NULL, NULL, str_format},
    {"format_map", "mapping", str_format_map, NULL},
};
const size_t tn_n_tstr_methods = sizeof tn_tstr_methods / sizeof *tn_tstr_methods;
