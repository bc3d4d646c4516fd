/**
 * Small templates, each of which asks for one thing that Python writes or reads in its own way. What jinja2 makes of them
 * is in fixtures/templates.json, written by `chat_oracle.py`.
 *
 * @module
 */

/** What the templates are given. */
export const CASE_VALUES: Readonly<Record<string, unknown>> = {
  ...{ n: 7, x: 1.5e-7, big: 1e21, half: 0.5, yes: true, none_value: null, s: 'It\'s "a"\n\u00e9', e: "" },
  list: [3, 1, 2, "b", null, true, 0.25],
  words: ["b", "A", "c", "a"],
  dict: { b: 1, a: { items: 2, keys: [1] }, C: "x" },
  people: [{ name: "Zoe", age: 3 }, { name: "adam", age: 1.5 }, { name: "Bob" }],
  nested: [["k", 1], ["l", 2]],
};
/** The templates. */
export const CASES: readonly string[] = [
  // texts of values
  ...[
    "{{ list }} {{ dict }} {{ (1, 'a') }} {{ yes }} {{ none_value }} {{ x }} {{ big }} {{ half }}",
  ],
  ...[
    "{{ s }}",
    "{{ [s] }}",
    "{{ ['\\u2028\\t\\\\', '\"', \"'\"] }}",
    "{{ missing }}|{{ [missing] }}",
    "{{ list|string|length }}",
  ],
  ...[
    "{{ 1.0 }} {{ 3 / 2 }} {{ 4 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 2 ** 3 }} {{ 2.5 * 2 }} {{ 1 - 0.5 }}",
  ],
  ...[
    "{{ 'a' ~ 1 ~ none ~ true ~ 1.0 ~ [1] }}",
    "{{ 'ab' * 2 }}",
    "{{ [1] + ['a'] }}",
    "{{ 'a' + 1 }}",
    "{{ none + 'a' }}",
  ],
  // json
  ...["{{ list|tojson }}", "{{ dict|tojson(indent=2) }}", "{{ dict|tojson(sort_keys=true, separators=(',', ':')) }}"],
  ...[
    "{{ s|tojson }} {{ s|tojson(ensure_ascii=true) }} {{ '<a&b>'|tojson }}",
    "{{ []|tojson(indent=1) }}{{ {}|tojson(indent=1) }}",
  ],
  ...[
    "{{ missing|tojson }}",
    "{{ {1: 2, none: 3, 'a': 4}|tojson }}",
    "{{ x|tojson }} {{ big|tojson }}",
    "{{ s|tojson|length }}",
  ],
  // comparisons and tests
  ...[
    "{{ 1 == 1.0 }} {{ true == 1 }} {{ '1' == 1 }} {{ [1] == [1] }} {{ [1] == (1, 2) }} {{ {} == {} }} {{ none == false }}",
  ],
  ...[
    "{{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 1 < 'a' }}",
    "{{ 'a' in 'abc' }} {{ 3 in list }} {{ 'b' in dict }} {{ [1] in [[1]] }}",
  ],
  ...["{{ 'a' in missing }}", "{{ 'a' in none }}", "{{ 1 not in [2] }} {{ not 1 in [1] }}"],
  ...[
    "{{ n is number }} {{ n is odd }} {{ yes is number }} {{ yes is boolean }} {{ list is iterable }} {{ dict is iterable }}",
  ],
  ...[
    "{{ dict is mapping }} {{ dict is sequence }} {{ 's' is sequence }} {{ missing is iterable }} {{ none is none }}",
  ],
  ...["{{ n is divisibleby(7) }} {{ n is not divisibleby 2 }} {{ n is eq(7) and n is gt(6) }} {{ n is in [1, 7] }}"],
  ...["{{ n is sameas 7 }} {{ none is sameas none }} {{ 'a' is in(dict) }} {{ n is defined and n is string }}"],
  ...[
    "{{ 'x' if n is not in dict.a['keys'] else 'y' }}",
    "{{ missing is undefined }} {{ dict.zzz is defined }} {{ s is string }}",
  ],
  ...[
    "{{ 'AB' is upper }} {{ '1' is upper }} {{ 'ab' is lower }} {{ 0.5 is float }} {{ 1 is integer }} {{ missing is nosuch }}",
  ],
  // looking up
  ...["{{ dict.a.items()|list }} {{ dict.a['items'] }} {{ dict['b'] }} {{ dict.get('zz', 5) }} {{ dict.get('zz') }}"],
  ...[
    "{{ missing.x }}",
    "{{ dict.zzz.y }}",
    "{{ none_value.x is defined }}",
    "{{ list[-1] }} {{ list[99] is defined }} {{ s[0] }}",
  ],
  ...[
    "{{ list[1:3] }} {{ list[::-1]|length }} {{ 'h\u00e9llo\ud83d\udc4d!'[-2:] }} {{ words[:-1] }} {{ words[1:][0] }}",
  ],
  ...[
    "{{ {1: 'a'}[1] }} {{ {1: 'a'}.keys()|list }}",
    "{{ missing() }}",
    "{{ s.nosuch() }}",
    "{{ 'abc'.length is defined }}",
  ],
  // methods
  ...[
    "{{ ' a '.strip() }}|{{ 'xxaxx'.strip('x') }}|{{ '\\n\\n a'.lstrip('\\n') }}|{{ 'a-]^'.rstrip('^]') }}|{{ 'ab'.strip('') }}",
  ],
  ...[
    "{{ 'a b  c'.split() }} {{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ 'a\\nb\\r\\n'.splitlines() }}",
  ],
  ...["{{ 'hELLO wORLD'.title() }} {{ 'hELLO'.capitalize() }} {{ 'x'.upper() }} {{ 'abc'.replace('b', 'd') }}"],
  ...["{{ 'abc'.startswith('a') }} {{ 'abc'.endswith(('x', 'c')) }} {{ 'abc'.find('c') }} {{ 'aXbX'.count('X') }}"],
  ...[
    "{{ '-'.join(['a', 'b']) }} {{ '{} {1} {{}} {k}'.format(1, k=2) if false else '{0}{1}{0} {k}'.format('a', 2, k=none) }}",
  ],
  ...["{{ '12'.isdigit() }} {{ 'a1'.isalpha() }} {{ 'prefix'.removeprefix('pre') }} {{ ' '.isspace() }}"],
  ...["{% set l = [1, 2, 3] %}{% set _ = l.append(4) %}{{ l }} {{ l.pop() }} {{ l.pop(0) }} {{ l }} {{ l.index(3) }}"],
  ...[
    "{% set d = {'a': 1} %}{% set _ = d.update({'b': 2}) %}{{ d }} {{ d.items()|list }} {{ d.values()|list }} {{ d.pop('a') }}",
  ],
  // filters
  ...[
    "{{ '  a '|trim }}|{{ 'xxa'|trim('x') }}|{{ list|trim }}|{{ 5|upper }}|{{ 'aBc dE-fG'|title }}|{{ 'aB'|capitalize }}",
  ],
  ...[
    "{{ missing|default('d') }} {{ ''|default('d') }} {{ ''|default('d', true) }} {{ none|default('d') }} {{ missing|d }}",
  ],
  ...["{{ list|length }} {{ missing|length }} {{ 'h\ud83d\udc4d'|length }} {{ dict|count }}", "{{ 5|length }}"],
  ...[
    "{{ dict|dictsort }}",
    "{{ dict|dictsort(case_sensitive=true) }}",
    "{{ {2: 'b', 1: 'c'}|dictsort(by='value', reverse=true) }}",
  ],
  ...[
    "{{ words|sort }} {{ words|sort(reverse=true) }} {{ words|unique|list }} {{ people|sort(attribute='name')|map(attribute='name')|list }}",
  ],
  ...[
    "{{ people|map(attribute='age', default=0)|list }} {{ words|map('upper')|join('-') }} {{ list|map('string')|list }}",
  ],
  ...[
    "{{ people|selectattr('age')|list|length }} {{ people|rejectattr('age', 'defined')|list }} {{ people|selectattr('name', 'equalto', 'Bob')|list }}",
  ],
  ...[
    "{{ [1, 2, 3]|select('odd')|list }} {{ [1, 2, 3]|reject('gt', 1)|list }} {{ none|selectattr('a')|list }} {{ ['', 'a']|select|list }}",
  ],
  ...["{{ list|join(', ') }} {{ people|join('|', attribute='name') }} {{ 'abc'|join('.') }} {{ missing|join }}"],
  ...[
    "{{ 'a\\n\\nb'|indent }}|{{ 'a\\n\\nb\\n'|indent(2, true) }}|{{ 'a\\n\\nb'|indent(width=1, blank=true) }}|{{ 'a\\nb'|indent('> ', first=true) }}",
  ],
  ...[
    "{{ '12'|int }} {{ ' 3.7 '|int }} {{ 'x'|int(9) }} {{ 2.9|int }} {{ true|int }} {{ '1.5'|float }} {{ 3|abs }} {{ -2.5|abs }}",
  ],
  ...[
    "{{ [3, 1, 2]|max }} {{ ['b', 'A']|min }} {{ []|min is defined }} {{ list|first }} {{ list|last }} {{ missing|first is defined }}",
  ],
  ...[
    "{{ 'abc'|reverse }} {{ [1, 2]|reverse|list }} {{ 'abc'|list }} {{ dict|list }} {{ dict|items|list }} {{ missing|items|list }}",
  ],
  ...[
    "{{ 'a' | safe + '<' }} {{ ('a'|safe) ~ '<' }} {{ '<&>\\'\"'|e }}",
    "{{ 'aXbX'|replace('X', 'y') }} {{ 'aXbX'|replace('X', 'y', 1) }}",
  ],
  ...[
    "{{ 'a'|nosuch }}",
    "{{ '[1, {\"a\": null}]'|from_json }}",
    "{% filter upper|trim %} a {{ n }} {% endfilter %}".replace("|trim", ""),
  ],
  // loops and scopes
  ...["{% for a in list %}{{ loop.index }}{{ loop.first }}{{ a }}{{ loop.last }}{{ loop.revindex0 }};{% endfor %}"],
  ...[
    "{% for k, v in dict.items() %}{{ k }}={{ v }} {% endfor %}{% for k in dict %}{{ k }}{% endfor %}{% for c in 'a\u00e9' %}{{ c }}.{% endfor %}",
  ],
  ...[
    "{% for a in missing %}x{% else %}none{% endfor %}{% for a, b in nested if b > 1 %}{{ a }}{{ loop.index }}{% endfor %}",
    "{% for a in 5 %}{% endfor %}",
  ],
  ...[
    "{% for a in [1, 2, 3, 4] %}[{{ a }}{% if a == 2 %}{% continue %}{% endif %}{% if a == 3 %}!{% break %}{% endif %}]{% endfor %}",
  ],
  ...["{% for a in [1, 2] %}{{ seen is defined }}{% set seen = a %}{{ seen }}{% endfor %}{{ seen is defined }}"],
  ...[
    "{% set ns = namespace(a=1, l=[]) %}{% for a in [1, 2] %}{% set ns.a = ns.a + a %}{% endfor %}{{ ns.a }} {{ ns.zz is defined }}",
  ],
  ...["{% for a in [1, 2, 3] %}{{ loop.previtem }},{{ loop.nextitem }},{{ loop.cycle('o', 'e') }};{% endfor %}"],
  ...[
    "{% set a, b = [1, 2] %}{{ b }}{{ a }}{% set t %} x {{ n }} {% endset %}[{{ t }}]",
    "{% if list and not e %}a{% elif n %}b{% else %}c{% endif %}",
  ],
  ...[
    "{% macro m(a, b=2, c=none) %}{{ a }}{{ b }}{{ c }}{{ g }}{% endmacro %}{% set g = 9 %}{{ m(1) }} {{ m(1, c=3) }} {{ m(b=0, a='x') }}",
  ],
  ...[
    "{% macro m() %}{{ inner is defined }}{{ kwargs }}{{ varargs|list }}{% endmacro %}{% for inner in [1] %}{{ m(1, k=2) }}{% endfor %}",
  ],
  ...["{% macro w(t) %}<{{ t }}>{{ caller() }}</{{ t }}>{% endmacro %}{% call w('b') %}x{{ n }}{% endcall %}"],
  ...[
    "{% set r = range(3)|list %}{{ r }} {{ range(5, 1, -2)|list }} {{ dict.b if dict.b is defined }}{{ 'a' if false }}",
  ],
  // lines
  ...[
    "a\n  {% if true %}\nb\n  {%- endif %}\nc\n",
    "{{- 'a' -}}  \n b\n\n",
    "  {# c #}\nx {# d -#}\n y",
    "{%- set x = 1 -%}\n\n  {{ x }}\n",
  ],
  ...[
    "{% generation %}\nx\n{% endgeneration %}y",
    "{{ strftime_now('%Y-%m-%d %H:%M %B %b %A %a %j %y %I%p') }}",
    "{{ raise_exception('no ' ~ n) }}",
  ],
];
