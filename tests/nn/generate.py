"""Golden values of layers and optimizers by PyTorch: python3 generate.py > golden.json"""
import torch, torch.nn as nn, torch.nn.functional as F, json, math
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
# Muon of PyTorch in float32: its products are in bfloat16 otherwise
torch.Tensor.bfloat16=lambda self:self.clone()
class Rule:
    def __init__(self,p): self.p=p; self.t=0; self.s=[dict(v=torch.zeros_like(x),m=torch.zeros_like(x)) for x in p]
    def zero_grad(self):
        for x in self.p: x.grad=None
    @torch.no_grad()
    def step(self):
        self.t+=1
        for x,s in zip(self.p,self.s): self.one(x,x.grad,s)
class Lars(Rule): # arXiv 1708.03888, algorithm 1
    def __init__(self,p,lr,momentum,wd,trust): super().__init__(p); self.a=(lr,momentum,wd,trust)
    def one(self,x,g,s):
        lr,momentum,wd,trust=self.a; local=trust*x.norm()/(g.norm()+wd*x.norm())
        s['v']=momentum*s['v']+lr*local*(g+wd*x); x-=s['v']
class Lamb(Rule): # arXiv 1904.00962, algorithm 2
    def __init__(self,p,lr,b1,b2,eps,wd): super().__init__(p); self.a=(lr,b1,b2,eps,wd)
    def one(self,x,g,s):
        lr,b1,b2,eps,wd=self.a; s['m']=b1*s['m']+(1-b1)*g; s['v']=b2*s['v']+(1-b2)*g*g
        u=(s['m']/(1-b1**self.t))/((s['v']/(1-b2**self.t)).sqrt()+eps)+wd*x; x-=lr*x.norm()/u.norm()*u
class Classic(Rule): # the learning rate inside the momentum, and falling
    def __init__(self,p,momentum): super().__init__(p); self.m=momentum; self.r=.1
    def lr(self,t): self.r=.1/(t+1)
    def one(self,x,g,s): s['v']=self.m*s['v']+self.r*g; x-=s['v']
O=dict(sgd=lambda p:torch.optim.SGD(p,lr=.1),momentum=lambda p:torch.optim.SGD(p,lr=.1,momentum=.9,weight_decay=.01),nesterov=lambda p:torch.optim.SGD(p,lr=.1,momentum=.9,nesterov=True),
 adam=lambda p:torch.optim.Adam(p,lr=.01),adamwd=lambda p:torch.optim.Adam(p,lr=.01,weight_decay=.1,betas=(.8,.99)),adamw=lambda p:torch.optim.AdamW(p,lr=.01,weight_decay=.1),
 rmsprop=lambda p:torch.optim.RMSprop(p,lr=.01),rmspropall=lambda p:torch.optim.RMSprop(p,lr=.01,alpha=.9,momentum=.5,centered=True,weight_decay=.1),
 adagrad=lambda p:torch.optim.Adagrad(p,lr=.1),adagradall=lambda p:torch.optim.Adagrad(p,lr=.1,weight_decay=.1,initial_accumulator_value=.2),
 adadelta=lambda p:torch.optim.Adadelta(p),adadeltaall=lambda p:torch.optim.Adadelta(p,lr=.5,rho=.8,eps=1e-4,weight_decay=.1),
 rprop=lambda p:torch.optim.Rprop(p,lr=.1),rpropall=lambda p:torch.optim.Rprop(p,lr=.1,etas=(.3,1.5),step_sizes=(.01,.2)),
 nadam=lambda p:torch.optim.NAdam(p,lr=.01),nadamall=lambda p:torch.optim.NAdam(p,lr=.01,betas=(.8,.99),momentum_decay=.1,weight_decay=.1,decoupled_weight_decay=True),
 radam=lambda p:torch.optim.RAdam(p,lr=.01,weight_decay=.1),radamshort=lambda p:torch.optim.RAdam(p,lr=.01,betas=(.8,.6),weight_decay=.1,decoupled_weight_decay=True),
 adamax=lambda p:torch.optim.Adamax(p,lr=.01),adamaxall=lambda p:torch.optim.Adamax(p,lr=.01,betas=(.8,.9),weight_decay=.1),
 asgd=lambda p:torch.optim.ASGD(p,lr=.1),asgdall=lambda p:torch.optim.ASGD(p,lr=.1,lambd=.3,alpha=.6,t0=1,weight_decay=.1),
 adafactor=lambda p:torch.optim.Adafactor(p),adafactorall=lambda p:torch.optim.Adafactor(p,lr=.3,beta2_decay=-.5,eps=(.1,.05),d=1.2,weight_decay=.1),
 muon=lambda p:torch.optim.Muon(p,lr=.1), lars=lambda p:Lars(p,.1,.9,.01,.02), lamb=lambda p:Lamb(p,.1,.9,.999,1e-6,.05), classic=lambda p:Classic(p,.9))
for k,mk in O.items():
    w=fill([3,2] if k!='muon' else [2,3],0.37,0.2,0.1).requires_grad_(); b=fill([2],0.3,0.4).requires_grad_(); opt=mk([w,b] if k!='muon' else [w]); ls=[]
    for s in range(4):
        opt.zero_grad(); x=fill([4,3],0.53,0.1*s); w_=w if k!='muon' else w.t(); l=((torch.tanh(x@w_+b)-0.3)**2).mean(); l.backward(); opt.lr(s) if hasattr(opt,'lr') else 0; opt.step(); ls.append(l)
    out[k]=dict(w=r(w),b=r(b),l=[round(v.item(),6) for v in ls])
    if k.startswith('asgd'): out[k]['ax']=r(opt.state[w]['ax'])
# sequences: outputs, states and the gradient of the input
torch.set_printoptions(sci_mode=False)
def seq(name,m,shape,state=None):
    setp(m); x=fill(shape,0.53,0.1).requires_grad_(); st=None if state is None else tuple(fill(s,0.31,0.5) for s in state)
    y,h=m(x,st if st is None or len(st)>1 else st[0]); (y*fill(list(y.shape),0.9,0.3)).sum().backward()
    hs=h if isinstance(h,tuple) else (h,); out[name]=dict(y=r(y),gx=r(x.grad),gw=r(m.weight_ih_l0.grad),**{'h%d'%i:r(v) for i,v in enumerate(hs)})
seq('lstmSequence',nn.LSTM(3,2),[4,2,3]); seq('lstmDeep',nn.LSTM(3,2,num_layers=2,bidirectional=True,batch_first=True),[2,4,3],[[4,2,2],[4,2,2]])
seq('gruSequence',nn.GRU(3,2,bias=False),[4,2,3],[[1,2,2]]); seq('gruDeep',nn.GRU(3,2,num_layers=2,bidirectional=True),[4,2,3]); seq('gruFlat',nn.GRU(3,2),[4,3])
seq('rnnSequence',nn.RNN(3,2,nonlinearity='relu',num_layers=2),[3,2,3])
for k,mk in dict(gru=lambda:nn.GRUCell(3,2),rnn=lambda:nn.RNNCell(3,2)).items():
    m=mk(); setp(m); out[k+'Cell']=dict(h=r(m(fill([2,3],0.41,0.7),m(fill([2,3],0.53,0.1)))))
# attention
def mha(name,m,shapes,**kw):
    setp(m); xs=[fill(s,0.53,0.1*i) for i,s in enumerate(shapes)]; xs[0].requires_grad_(); q,k,v=(xs*3)[:3] if len(xs)==1 else xs
    y,w=m(q,k,v,**kw); (y*fill(list(y.shape),0.9,0.3)).sum().backward(); out[name]=dict(y=r(y),gx=r(xs[0].grad),**({} if w is None else dict(w=r(w))))
pad=torch.tensor([[False,False,True],[False,False,False]]); up=torch.triu(torch.ones(3,3,dtype=torch.bool),1)
mha('mhaSelf',nn.MultiheadAttention(4,2),[[3,2,4]]); mha('mhaCross',nn.MultiheadAttention(4,2,kdim=3,vdim=5,batch_first=True),[[2,3,4],[2,5,3],[2,5,5]])
mha('mhaMasked',nn.MultiheadAttention(4,2,batch_first=True),[[2,3,4]],attn_mask=up,key_padding_mask=pad,average_attn_weights=False)
mha('mhaFloat',nn.MultiheadAttention(4,1,bias=False),[[3,4]],attn_mask=fill([3,3],0.7,0.2),need_weights=False)
mha('mhaCausal',nn.MultiheadAttention(4,2,batch_first=True),[[2,3,4]],attn_mask=up,is_causal=True,need_weights=False)
def block(name,m,shapes,**kw):
    setp(m); m.train(False) if False else None; xs=[fill(s,0.53,0.1*i) for i,s in enumerate(shapes)]; xs[0].requires_grad_(); y=m(*xs,**kw)
    (y*fill(list(y.shape),0.9,0.3)).sum().backward(); out[name]=dict(y=r(y),gx=r(xs[0].grad))
kw=dict(dim_feedforward=6,dropout=0.0)
block('encoderLast',nn.TransformerEncoderLayer(4,2,batch_first=True,**kw),[[2,3,4]],src_key_padding_mask=pad)
block('encoderFirst',nn.TransformerEncoderLayer(4,2,norm_first=True,activation='gelu',**kw),[[3,2,4]])
block('decoderLast',nn.TransformerDecoderLayer(4,2,**kw),[[3,2,4],[5,2,4]],tgt_mask=up)
block('decoderFirst',nn.TransformerDecoderLayer(4,2,norm_first=True,batch_first=True,bias=False,**kw),[[2,3,4],[2,5,4]])
stacks=dict(dim_feedforward=6,dropout=0.0,batch_first=True)
block('encoderStack',nn.TransformerEncoder(nn.TransformerEncoderLayer(4,2,**stacks),2,norm=nn.LayerNorm(4),enable_nested_tensor=False),[[2,3,4]],mask=up)
block('decoderStack',nn.TransformerDecoder(nn.TransformerDecoderLayer(4,2,**stacks),2),[[2,3,4],[2,5,4]],tgt_mask=up)
block('transformer',nn.Transformer(4,2,2,1,norm_first=True,**stacks),[[2,3,4],[2,3,4]],tgt_mask=up,src_key_padding_mask=pad,memory_key_padding_mask=pad)
block('bilinear',nn.Bilinear(4,3,2),[[2,5,4],[2,5,3]]); block('bilinearFlat',nn.Bilinear(4,3,2,bias=False),[[4],[3]])
# spectral norms: vectors given, then three steps of training, and evaluation
def spectral(name,m,shape,**kw):
    setp(m); m=nn.utils.spectral_norm(m,**kw); m.weight_u.copy_(F.normalize(fill(list(m.weight_u.shape),.7,.4),dim=0)); m.weight_v.copy_(F.normalize(fill(list(m.weight_v.shape),.6,.2),dim=0))
    o=torch.optim.SGD(m.parameters(),lr=.1); ys=[]
    for i in range(3):
        o.zero_grad(); y=m(fill(shape,.53,.1*i)); ys.append(r(y)); (y*fill(list(y.shape),.9,.3)).sum().backward(); o.step()
    m.eval(); out[name]=dict(y=ys[0]+ys[1]+ys[2],e=r(m(fill(shape,.53,.1))),orig=r(m.weight_orig),u=r(m.weight_u),v=r(m.weight_v))
spectral('spectralLinear',nn.Linear(3,2),[4,3]); spectral('spectralConv',nn.Conv2d(2,3,2),[1,2,3,3],n_power_iterations=3); spectral('spectralTransposed',nn.ConvTranspose1d(2,3,2),[1,2,3])
# convolutions of other ranks
def conv(name,m,shape):
    setp(m); x=fill(shape,0.53,0.1).requires_grad_(); y=m(x); (y*fill(list(y.shape),0.9,0.3)).sum().backward(); out[name]=dict(y=r(y),gx=r(x.grad),gw=r(m.weight.grad))
conv('conv3d',nn.Conv3d(1,2,2,padding=1,stride=(1,2,1)),[1,1,2,3,2]); conv('convSame',nn.Conv1d(2,2,4,padding='same',dilation=2,groups=2),[1,2,7])
conv('convT1d',nn.ConvTranspose1d(4,2,3,stride=2,output_padding=1,groups=2),[1,4,3]); conv('convT3d',nn.ConvTranspose3d(1,2,2,stride=(2,1,1),output_padding=(1,0,0)),[1,1,2,2,2])
# clipping
from torch.nn.utils import clip_grad_norm_,clip_grad_value_
for k,fn in dict(clip2=lambda p:clip_grad_norm_(p,1.5),clipInf=lambda p:clip_grad_norm_(p,.5,float('inf')),clip1=lambda p:clip_grad_norm_(p,100.,1.),clipValue=lambda p:clip_grad_value_(p,.4)).items():
    ps=[torch.zeros(3),torch.zeros(2,2)]; ps[0].grad=fill([3],1.,0.2); ps[1].grad=fill([2,2],.7,1.)*2; n=fn(ps); out[k]=dict(a=r(ps[0].grad),b=r(ps[1].grad),n=[] if n is None else r(n))
# learning rates: as set at the start, then after each of 12 steps
S=torch.optim.lr_scheduler
P=[1.,.9,.9,.95,.9,.91,.92,.3,.31,.32,.33,.34]
for k,mk in dict(stepLR=lambda o:S.StepLR(o,3,gamma=.5),multiStepLR=lambda o:S.MultiStepLR(o,[2,5,5]),exponentialLR=lambda o:S.ExponentialLR(o,.9),linearLR=lambda o:S.LinearLR(o,.25,.75,total_iters=6),
    polynomialLR=lambda o:S.PolynomialLR(o,total_iters=7,power=2.),lambdaLR=lambda o:S.LambdaLR(o,lambda t:1/(t+1)),cosine=lambda o:S.CosineAnnealingLR(o,9,eta_min=.01),
    constantLR=lambda o:S.ConstantLR(o,.25,total_iters=4),restarts=lambda o:S.CosineAnnealingWarmRestarts(o,3,eta_min=.01),restartsLonger=lambda o:S.CosineAnnealingWarmRestarts(o,2,T_mult=2),
    cyclic=lambda o:S.CyclicLR(o,.1,.5,step_size_up=3,step_size_down=2,cycle_momentum=False),cyclic2=lambda o:S.CyclicLR(o,.1,.5,step_size_up=2,mode='triangular2',cycle_momentum=False),cyclicExp=lambda o:S.CyclicLR(o,.1,.5,step_size_up=2,mode='exp_range',gamma=.9,cycle_momentum=False),
    cyclicScale=lambda o:S.CyclicLR(o,.1,.5,step_size_up=2,scale_fn=lambda t:1/(1+t),scale_mode='iterations',cycle_momentum=False),
    sequential=lambda o:S.SequentialLR(o,[S.LinearLR(o,.1,total_iters=4),S.CosineAnnealingLR(o,6,eta_min=.01),S.ConstantLR(o,.5,total_iters=2)],[4,10]),
    chainedFloor=lambda o:S.ChainedScheduler([S.CosineAnnealingLR(o,5,eta_min=.01),S.ExponentialLR(o,.9)]),chainedFloors=lambda o:S.ChainedScheduler([S.LinearLR(o,.1,total_iters=4),S.CosineAnnealingLR(o,4,eta_min=.02)]),
    chained=lambda o:S.ChainedScheduler([S.LinearLR(o,.1,total_iters=4),S.StepLR(o,3,gamma=.5),S.CosineAnnealingLR(o,20)]),
    oneCycle=lambda o:S.OneCycleLR(o,.5,total_steps=13,cycle_momentum=False),oneCycleLinear=lambda o:S.OneCycleLR(o,.5,total_steps=13,pct_start=.5,anneal_strategy='linear',div_factor=5,cycle_momentum=False),
    plateau=lambda o:S.ReduceLROnPlateau(o,factor=.5,patience=1,cooldown=1,min_lr=.03),plateauMax=lambda o:S.ReduceLROnPlateau(o,mode='max',patience=2,threshold=.05,threshold_mode='abs')).items():
    o=torch.optim.SGD([torch.zeros(1)],lr=.2); sc=mk(o); v=[o.param_groups[0]['lr']]
    for t in range(12): o.step(); sc.step(P[t]) if 'lateau' in k else sc.step(); v.append(o.param_groups[0]['lr'])
    out[k]=dict(lr=[round(x,8) for x in v])
print('{\n' + ',\n'.join('%s: %s' % (json.dumps(k), json.dumps(v)) for k, v in out.items()) + '\n}')
