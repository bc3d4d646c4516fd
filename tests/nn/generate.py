"""Golden values of layers and optimizers by PyTorch: python3 generate.py > golden.json"""
import torch, torch.nn as nn, json, math
def fill(shape,a,b,c=0.0):
    n=math.prod(shape) if shape else 1
    return torch.tensor([math.sin(i*a+b)+c for i in range(n)],dtype=torch.float32).reshape(shape)
out={}
def r(t): return [round(v,6) for v in t.detach().flatten().tolist()]
def setp(m):
    for k,(n,p) in enumerate(sorted(m.named_parameters())): p.data=fill(list(p.shape),0.37,0.2*k,0.1)
L=dict(
 linear=(lambda:nn.Linear(4,3),[2,4]), conv2d=(lambda:nn.Conv2d(2,4,3,padding=1,stride=2,groups=2),[1,2,5,5]), conv1d=(lambda:nn.Conv1d(2,3,2,dilation=2),[2,2,6]),
 convT=(lambda:nn.ConvTranspose2d(2,3,3,stride=2,padding=1,output_padding=1),[1,2,3,3]),
 layernorm=(lambda:nn.LayerNorm([3,4]),[2,3,4]), groupnorm=(lambda:nn.GroupNorm(2,4),[2,4,3]), instancenorm=(lambda:nn.InstanceNorm2d(2,affine=True),[2,2,2,3]), rmsnorm=(lambda:nn.RMSNorm(5,eps=1e-6),[2,5]))
for k,(mk,sh) in L.items():
    m=mk(); setp(m); x=fill(sh,0.53,0.1).requires_grad_(); y=m(x); (y*fill(list(y.shape),0.9,0.3)).sum().backward()
    out[k]=dict(names=[n for n,_ in sorted(m.named_parameters())],y=r(y),gx=r(x.grad),gw=r(m.weight.grad))
m=nn.BatchNorm2d(2); setp(m); x=fill([3,2,2,2],0.53,0.1).requires_grad_(); y=m(x); (y*fill([3,2,2,2],0.9,0.3)).sum().backward()
out['batchnorm']=dict(y=r(y),gx=r(x.grad),gw=r(m.weight.grad),rm=r(m.running_mean),rv=r(m.running_var)); m.eval(); out['batchnorm']['ev']=r(m(x))
m=nn.Embedding(5,3); setp(m); i=torch.tensor([[1,4],[1,0]]); y=m(i); (y*fill([2,2,3],0.9,0.3)).sum().backward(); out['embedding']=dict(y=r(y),gw=r(m.weight.grad))
m=nn.LSTMCell(3,2); 
for k,n in enumerate(['bias_hh','bias_ih','weight_hh','weight_ih']): p=getattr(m,n); p.data=fill(list(p.shape),0.37,0.2*k,0.1)
h,c=m(fill([2,3],0.53,0.1)); h,c=m(fill([2,3],0.41,0.7),(h,c)); out['lstm']=dict(h=r(h),c=r(c))
O=dict(sgd=lambda p:torch.optim.SGD(p,lr=.1),momentum=lambda p:torch.optim.SGD(p,lr=.1,momentum=.9,weight_decay=.01),nesterov=lambda p:torch.optim.SGD(p,lr=.1,momentum=.9,nesterov=True),
 adam=lambda p:torch.optim.Adam(p,lr=.01),adamwd=lambda p:torch.optim.Adam(p,lr=.01,weight_decay=.1,betas=(.8,.99)),adamw=lambda p:torch.optim.AdamW(p,lr=.01,weight_decay=.1))
for k,mk in O.items():
    w=fill([3,2],0.37,0.2,0.1).requires_grad_(); b=fill([2],0.3,0.4).requires_grad_(); opt=mk([w,b]); ls=[]
    for s in range(4):
        opt.zero_grad(); x=fill([4,3],0.53,0.1*s); l=((torch.tanh(x@w+b)-0.3)**2).mean(); l.backward(); opt.step(); ls.append(l)
    out[k]=dict(w=r(w),b=r(b),l=[round(v.item(),6) for v in ls])
print('{\n' + ',\n'.join('%s: %s' % (json.dumps(k), json.dumps(v)) for k, v in out.items()) + '\n}')
