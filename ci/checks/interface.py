"""Prints the public interface of a crate, from the pages that rustdoc has written: every item with its
signature, the fields, variants and methods of each, and the traits that it implements, without bounds.

    python3 ci/checks/interface.py DOC_FOLDER CRATE

What `#[doc(hidden)]` hides is not printed, nor are the traits that the compiler implements.
"""

import html
import re
import sys
from pathlib import Path

# The rest of a page lists what follows from the item's parts, or holds for all types.
REST = re.compile(r'<h2 id="(synthetic-implementations|blanket-implementations|foreign-impls|implementors)"')
TRAITS = '<h2 id="trait-implementations"'
MEMBER = re.compile(
    r'id="(?:method|tymethod|associatedconstant|associatedtype)\.[^"]*" class="[^"]*"[^>]*>'
    r'.*?<h4 class="code-header">(.*?)</h4>', re.S)
VARIANT = re.compile(r'<section id="variant\.[^"]*"[^>]*>.*?<h3 class="code-header">(.*?)</h3>', re.S)
FIELD = re.compile(r'<span id="structfield\.[^"]*"[^>]*>.*?<code>(.*?)</code>', re.S)
IMPLEMENTED = re.compile(r'<section id="impl-[^"]*" class="impl">.*?<h3 class="code-header">(.*?)</h3>', re.S)
DECLARED = re.compile(r'<pre class="rust item-decl"><code>(.*?)</code></pre>', re.S)


def text(code):
    """The code without markup, on one line."""
    code = re.sub(r'<summary class="hideme">.*?</summary>', '', code, flags=re.S)
    code = re.sub(r'<span class="where.*?>', ' <span>', code)
    plain = html.unescape(re.sub(r'<[^>]+>', '', code.replace('<br>', ' ')))
    return re.sub(r'\s+', ' ', plain).replace('( ', '(').replace(', )', ')').strip()


def trait(implemented):
    """The trait of `impl<..> Trait for Type`, with its parameters."""
    rest, depth = implemented.removeprefix('impl'), 0
    if rest.startswith('<'):
        for end, letter in enumerate(rest):
            depth += (letter == '<') - (letter == '>' and rest[end - 1] != '-')
            if depth == 0:
                rest = rest[end + 1:]
                break
    return rest.split(' for ')[0].strip()


def lines(page):
    """The lines of one item."""
    page = page[:found.start()] if (found := REST.search(page)) else page
    own, _, traits = page.partition(TRAITS)
    declared = DECLARED.search(own)
    if declared:
        # Of a type with parts, only the head; the parts have lines of their own.
        head = text(declared.group(1))
        is_type = re.match(r'(#\[[^]]*\] ?)*pub (struct|enum|union|(unsafe )?trait) ', head)
        head = head.split(' {')[0] if is_type else head
        yield re.sub(r'^(#\[[^]]*\]) ?', r'\1 ', head)
    found = [match for pattern in (VARIANT, FIELD, MEMBER) for match in pattern.findall(own)]
    yield from (f'    {text(code)}' for code in found)
    names = {trait(text(code)) for code in IMPLEMENTED.findall(traits)} - {'StructuralPartialEq'}
    if names:
        yield f'    implements {", ".join(sorted(names))}'


def main():
    folder = Path(sys.argv[1]) / sys.argv[2].replace('-', '_')
    listed = re.findall(r'<li><a href="([^"]+)">', (folder / 'all.html').read_text('utf-8'))
    if not listed:
        sys.exit(f'interface: {folder}/all.html lists nothing')
    for page in sorted(listed):
        place = page.rsplit('/', 1)[0].replace('/', '::') if '/' in page else ''
        found = list(lines((folder / page).read_text('utf-8')))
        if not found:
            sys.exit(f'interface: {page} has no declaration')
        print(f'{place}:: {found[0]}' if place else found[0])
        print(*found[1:], sep='\n', end='\n' if found[1:] else '')


main()
