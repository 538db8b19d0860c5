//! The styles of the page, light and dark.
//!
//! Series go from dark to light (viridis in the light theme, lighter colours in the dark one) and also
//! differ by their dashes. Denied and admitted are the vermillion and blue of Okabe and Ito. The cells
//! of the heat map have the same colours, and a matching text colour, in both themes.

pub(super) const STYLE: &str = "
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1b1f24; --soft: #57606a;
  --rule: #d0d7de; --denied: #c4500a; --admitted: #7fb2d6; --mark: #c4500a;
  --s0: #440154; --s1: #46327e; --s2: #365c8d; --s3: #277f8e; --s4: #1a8a73; --s5: #3f9b4f;
  --s6: #7d8f00; --s7: #b07d00; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171b; --ink: #e6e9ed; --soft: #a0a9b4;
  --rule: #3a424c; --denied: #ff8a3d; --admitted: #3f7fb0; --mark: #ff8a3d;
  --s0: #c9a2ff; --s1: #9fa8ff; --s2: #6fbcf0; --s3: #45cfd6; --s4: #4fdca0; --s5: #97e070;
  --s6: #dede55; --s7: #ffb86b; } }
body { background: var(--paper); color: var(--ink); margin: 0 auto; max-width: 960px;
  padding: 16px; font: 15px/1.5 system-ui, 'Liberation Sans', Arial, sans-serif; }
h1 { font-size: 24px; margin: 8px 0; } h2 { font-size: 19px; margin: 36px 0 4px; }
h3 { font-size: 15px; margin: 18px 0 0; overflow-wrap: anywhere; }
p { margin: 4px 0; } .soft { color: var(--soft); }
pre { background: none; border-left: 3px solid var(--rule); padding: 2px 12px; margin: 8px 0;
  white-space: pre-wrap; overflow-wrap: anywhere; font: 13px/1.5 ui-monospace, 'Liberation Mono', monospace; }
.wide, .picture { overflow-x: auto; margin: 8px 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 14px; }
th, td { padding: 3px 12px 3px 0; text-align: right; border-bottom: 1px solid var(--rule);
  white-space: nowrap; }
th.text, td.text { text-align: left; }
th { color: var(--soft); font-weight: 600; } tr.best td { font-weight: 700; }
svg { display: block; } svg text { font: 12px system-ui, 'Liberation Sans', Arial, sans-serif; }
text { fill: var(--ink); } text.tick, text.axis { fill: var(--soft); } text.name { font-weight: 600; }
line.axis { stroke: var(--soft); } line.grid { stroke: var(--rule); }
line.bound { stroke: var(--mark); stroke-width: 1.5; stroke-dasharray: 6 4; }
rect.denied { fill: var(--denied); } rect.admitted { fill: var(--admitted); }
polyline { fill: none; stroke-width: 2; stroke-linejoin: round; }
circle { stroke: var(--paper); stroke-width: 1; } circle.ring { fill: none; stroke: var(--mark);
  stroke-width: 2.5; }
.s0 { stroke: var(--s0); } .s1 { stroke: var(--s1); stroke-dasharray: 8 3; }
.s2 { stroke: var(--s2); } .s3 { stroke: var(--s3); stroke-dasharray: 8 3; }
.s4 { stroke: var(--s4); } .s5 { stroke: var(--s5); stroke-dasharray: 8 3; }
.s6 { stroke: var(--s6); } .s7 { stroke: var(--s7); stroke-dasharray: 8 3; }
.d0 { fill: var(--s0); } .d1 { fill: var(--s1); } .d2 { fill: var(--s2); } .d3 { fill: var(--s3); }
.d4 { fill: var(--s4); } .d5 { fill: var(--s5); } .d6 { fill: var(--s6); } .d7 { fill: var(--s7); }
rect.h0 { fill: #f3f3f3; } rect.h1 { fill: #dbe9f6; } rect.h2 { fill: #b0d2e8; }
rect.h3 { fill: #7ab6d9; } rect.h4 { fill: #2b76b5; } rect.h5 { fill: #14559a; }
rect.h6 { fill: #08306b; } text.on-light { fill: #10141a; } text.on-dark { fill: #ffffff; }
";

/// The number of line styles. Further series reuse them.
pub(super) const LOOKS: usize = 8;
