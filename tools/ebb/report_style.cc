// SPDX-License-Identifier: MIT
#include "report.h"

namespace ebb::program {

const char* report_style() {
  return R"(<style>
:root{color-scheme:light dark;--bg:#f4f7fa;--card:#fff;--ink:#172230;--soft:#5b6b7d;--edge:#dfe6ee;--sea:9,105,218;
--right:22,138,98;--wrong:209,63,50;--invert:1;--shadow:0 1px 2px rgba(23,34,48,.05),0 6px 24px rgba(23,34,48,.05)}
@media (prefers-color-scheme:dark){:root{--bg:#0b1118;--card:#131c27;--ink:#e9f0f7;--soft:#8fa1b4;--edge:#223041;
--sea:88,166,255;--right:52,190,140;--wrong:248,110,95;--invert:0;--shadow:none}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}
main{max-width:1240px;margin:0 auto;padding:44px 24px 56px}
header{display:flex;gap:32px;align-items:center;justify-content:space-between;flex-wrap:wrap;margin:0 0 28px}
header>div{flex:1 1 280px}
h1{font-size:34px;line-height:1.15;letter-spacing:-.02em;margin:0 0 8px;font-weight:700}
h2{font-size:17px;margin:0 0 2px;letter-spacing:-.01em}
p{margin:0 0 16px;color:var(--soft);max-width:64ch}header p{font-size:16px;margin:0}
.ring{flex:none;width:140px;height:140px}.ring circle{fill:none;stroke-width:9}
.ring .track{stroke:rgba(var(--sea),.14)}.ring .value{stroke:rgb(var(--sea));stroke-linecap:round}
.ring text{fill:var(--ink);text-anchor:middle;font:700 20px system-ui,sans-serif}
.ring .small{fill:var(--soft);font:400 11px system-ui,sans-serif}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(140px,1fr));gap:14px;margin:0 0 20px}
.card,section{background:var(--card);border:1px solid var(--edge);border-radius:14px;box-shadow:var(--shadow)}
.card{padding:14px 18px}.card b{display:block;font-size:24px;line-height:1.3;font-variant-numeric:tabular-nums;
letter-spacing:-.01em}.card span{color:var(--soft);font-size:13px}
section{padding:20px 22px;margin:0 0 20px;min-width:0}
.two{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,460px),1fr));column-gap:20px}
.three{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,340px),1fr));column-gap:20px}
svg{display:block;width:100%;height:auto}#scatter .dot{fill-opacity:.6}
.images{display:flex;flex-wrap:wrap;gap:14px 12px}
figure{margin:0;width:68px;text-align:center}
figure img{width:68px;height:68px;border-radius:10px;image-rendering:pixelated;display:block}
.black img{filter:invert(var(--invert))}.white img{filter:invert(calc(1 - var(--invert)))}
figcaption{font-size:12px;line-height:1.35;margin-top:5px;color:var(--soft);font-variant-numeric:tabular-nums;
overflow-wrap:anywhere}
figcaption b{font-size:15px;color:rgb(var(--right))}.wrong figcaption b{color:rgb(var(--wrong))}
.scroll{overflow-x:auto}
.confusion{border-spacing:3px;width:100%;table-layout:fixed;font-variant-numeric:tabular-nums}
.confusion td,.confusion th{text-align:center;padding:7px 0;border-radius:7px;font-size:13px;font-weight:400;
overflow:hidden;text-overflow:ellipsis}
.confusion th,.confusion .axis{color:var(--soft)}.confusion .axis{padding:0}
.confusion .right{background:rgba(var(--right),var(--d))}.confusion .wrong{background:rgba(var(--wrong),var(--d))}
.bars{display:grid;gap:14px;margin-top:18px}
.bars div{display:grid;grid-template-columns:var(--names) 1fr 7ch;gap:12px;align-items:center;font-size:13px}
.bars i{height:10px;border-radius:5px;background:rgba(var(--sea),.12);overflow:hidden}
.bars i b{display:block;height:100%;border-radius:5px;background:rgb(var(--sea))}
.number{text-align:right;color:var(--soft);font-variant-numeric:tabular-nums}
blockquote{margin:0 0 14px;padding:2px 0 2px 18px;border-left:3px solid rgb(var(--sea));white-space:pre-wrap;
font:15px/1.6 Georgia,'Times New Roman',serif;overflow-wrap:anywhere}
blockquote b{color:rgb(var(--sea));font-weight:400}
.settings{display:grid;grid-template-columns:repeat(auto-fill,minmax(230px,1fr));gap:2px 28px;margin:8px 0 0}
.settings div{display:flex;justify-content:space-between;gap:12px;padding:5px 0;border-bottom:1px solid var(--edge);
font-size:13px}
.settings dt{color:var(--soft)}.settings dd{margin:0;text-align:right;font-variant-numeric:tabular-nums;
overflow-wrap:anywhere}
.note{font-size:12px;margin:14px 0 0}
footer{color:var(--soft);font-size:13px;margin-top:28px}
@media (max-width:560px){main{padding:22px 12px 32px}section{padding:14px 12px}.card{padding:10px 12px}
.card b{font-size:20px}h1{font-size:26px;overflow-wrap:anywhere}.cards{gap:8px}.ring{margin:0 auto}
.confusion td,.confusion th{font-size:11px}.confusion{border-spacing:2px}.settings{grid-template-columns:1fr}
.images{justify-content:center}section svg text{font-size:14px}section svg .title{font-size:16px}}
@media print{body{background:#fff}section,.card{box-shadow:none;break-inside:avoid}}
</style>
)";
}

}  // namespace ebb::program
