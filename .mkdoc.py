"""usage: .mkdoc.py base.json [newer.json...] → markdown rows; later files replace rows"""
import json,sys
rows={}
for n,f in enumerate(sys.argv[1:]):
    for r in json.load(open(f))['rows']:
        rows[r['row']]=(r,n)
def cell(r,n):
    rec=r['recovered_seconds']
    views=[v for k,v in rec.items() if k.startswith('view of')]
    own=[f"{k} {v:.1f} s" if v is not None else f"{k}: never" for k,v in rec.items() if not k.startswith('view of') and k!='agents']
    out=own+[f"agents {rec['agents']:.1f} s, views {max(views):.1f} s"]
    peaks={}
    for p,m in r['peak_mib'].items():
        k=p.split('-')[0]; peaks[k]=max(m,peaks.get(k,0))
    hostile=f" ({r['hostile_requests']} sent: {', '.join(f'{v} × {k}' for k,v in sorted(r['statuses'].items()))})" if r['hostile_requests'] else ''
    return f"| `{r['row']}` | {r['says']}{hostile} | {100*r['held_ratio']:.1f} % | {r['violations']} | {'; '.join(out)} | {peaks['agent']} · {peaks['extender']} · {peaks['controller']} |"
for name,(r,n) in sorted(rows.items()): print(cell(r,n))
