/* Values as JSON: Python's json.dumps. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "template_run.h"

typedef struct writer {
    tn_trun *r;
    tn_tbuf *b;
    const tn_tjson_style *style;
    int64_t level;
} writer;

static void write_value(writer *w, tn_tval v);

static void write_unicode_escape(tn_tbuf *b, uint32_t unit, bool is_data) {
    static const char hex[] = "0123456789abcdef";
    char text[6] = {'\\',          'u', hex[unit >> 12 & 15], hex[unit >> 8 & 15], hex[unit >> 4 & 15],
                    hex[unit & 15]};
    tn_tbuf_bytes(b, text, 6, is_data);
}

static void write_char(writer *w, const tn_tstr *s, size_t begin, size_t end, uint32_t code) {
    static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
    const char *simple = code && code < 0x80 ? strchr(from, (int)code) : NULL;
    const bool plain = !simple && code >= 0x20 && (code < 0x7F || !w->style->ascii);
    if (plain) {
        tn_tbuf_slice(w->b, s, begin, end);
        return;
    }
    const bool is_data = tn_tstr_is_data(s, begin);
    if (simple) {
        char text[2] = {'\\', to[simple - from]};
        tn_tbuf_bytes(w->b, text, 2, is_data);
    } else if (code < 0x10000) {
        write_unicode_escape(w->b, code, is_data);
    } else {
        write_unicode_escape(w->b, 0xD800 + ((code - 0x10000) >> 10), is_data);
        write_unicode_escape(w->b, 0xDC00 + ((code - 0x10000) & 0x3FF), is_data);
    }
}

static void write_str(writer *w, const tn_tstr *s) {
    tn_tbuf_text(w->b, "\"");
    for (size_t i = 0; i < s->n;) {
        size_t begin = i;
        uint32_t code = tn_tnext_char(s, &i);
        tn_tcharge(&w->r->m, 1);
        write_char(w, s, begin, i, code);
    }
    tn_tbuf_text(w->b, "\"");
}

static void write_float(writer *w, double f) {
    char text[TN_TFLOAT_CHARS];
    tn_tfloat_repr(f, text);
    tn_tbuf_text(w->b, isnan(f) ? "NaN" : isinf(f) ? (f < 0 ? "-Infinity" : "Infinity") : text);
}

static void write_newline(writer *w) {
    if (!w->style->indent) return;
    tn_tbuf_text(w->b, "\n");
    tn_tbuf_repeat(w->b, w->style->indent, w->level);
}

/* Before item i of a list or dict. */
static void write_separator(writer *w, size_t i) {
    if (i) tn_tbuf_str(w->b, w->style->item_separator);
    write_newline(w);
}

static void write_list(writer *w, const tn_tlist *l) {
    tn_tbuf_text(w->b, "[");
    w->level++;
    for (size_t i = 0; i < l->n; i++) {
        write_separator(w, i);
        write_value(w, l->v[i]);
    }
    w->level--;
    if (l->n) write_newline(w);
    tn_tbuf_text(w->b, "]");
}

static void write_key(writer *w, tn_tval key) {
    if (key.kind == TN_T_STR) {
        write_str(w, key.s);
        return;
    }
    if (!tn_tis_number(key) && key.kind != TN_T_NONE)
        tn_tfail(&w->r->m, TN_ERR_FORMAT, "keys must be str, int, float, bool or None, not %s",
                 tn_ttype_name(key));
    tn_tbuf_text(w->b, "\"");
    write_value(w, key);
    tn_tbuf_text(w->b, "\"");
}

/* Python's order of (key, value) pairs. */
static const tn_tdict *sorted_dict(writer *w, const tn_tdict *d) {
    tn_tlist *pairs = tn_tlist_new(&w->r->m, d->n), *keys = tn_tlist_new(&w->r->m, d->n);
    for (size_t i = 0; i < d->n; i++) {
        tn_tlist_add(&w->r->m, pairs, tn_tint((int64_t)i));
        tn_tlist_add(&w->r->m, keys, d->v[i].key);
    }
    tn_tsort(w->r, pairs, keys, false);
    tn_tdict *sorted = tn_tdict_new(&w->r->m, d->n);
    for (size_t i = 0; i < d->n; i++)
        tn_tdict_set(&w->r->m, sorted, d->v[pairs->v[i].i].key, d->v[pairs->v[i].i].value);
    return sorted;
}

static void write_dict(writer *w, const tn_tdict *d) {
    if (w->style->sort_keys) d = sorted_dict(w, d);
    tn_tbuf_text(w->b, "{");
    w->level++;
    for (size_t i = 0; i < d->n; i++) {
        write_separator(w, i);
        write_key(w, d->v[i].key);
        tn_tbuf_str(w->b, w->style->key_separator);
        write_value(w, d->v[i].value);
    }
    w->level--;
    if (d->n) write_newline(w);
    tn_tbuf_text(w->b, "}");
}

static void write_value(writer *w, tn_tval v) {
    char text[24];
    tn_tcharge(&w->r->m, 1);
    tn_tenter(&w->r->m);
    switch (v.kind) {
    case TN_T_NONE: tn_tbuf_text(w->b, "null"); break;
    case TN_T_BOOL: tn_tbuf_text(w->b, v.b ? "true" : "false"); break;
    case TN_T_INT:
        snprintf(text, sizeof text, "%" PRId64, v.i);
        tn_tbuf_text(w->b, text);
        break;
    case TN_T_FLOAT: write_float(w, v.f); break;
    case TN_T_STR: write_str(w, v.s); break;
    case TN_T_LIST:
    case TN_T_TUPLE: write_list(w, v.l); break;
    case TN_T_DICT: write_dict(w, v.d); break;
    default:
        tn_tfail(&w->r->m, TN_ERR_FORMAT, "Object of type %s is not JSON serializable", tn_ttype_name(v));
    }
    tn_tleave(&w->r->m);
}

void tn_tjson(tn_trun *r, tn_tbuf *b, tn_tval v, const tn_tjson_style *style) {
    writer w = {.r = r, .b = b, .style = style};
    write_value(&w, v);
}
