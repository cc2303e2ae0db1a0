PRAGMA page_size = 2048;
PRAGMA application_id = 1114989668;
BEGIN;
CREATE TABLE approvals (
  id TEXT PRIMARY KEY, session INTEGER NOT NULL, run_id TEXT NOT NULL, call_id TEXT NOT NULL, digest TEXT NOT NULL,
  expires_at INTEGER NOT NULL, state TEXT NOT NULL DEFAULT 'pending', decided_by TEXT
) STRICT, WITHOUT ROWID;
CREATE TABLE blob_refs (
  blob TEXT NOT NULL, session INTEGER NOT NULL, PRIMARY KEY (blob, session)
) STRICT, WITHOUT ROWID;
INSERT INTO "blob_refs" VALUES('8461b901dfe89eaae3ec5b6fdc16a299eef95022fee12d096d50cb971697c8b4',1);
INSERT INTO "blob_refs" VALUES('3f426a2d78a82ca02c79ddd183cff5e9fd968b8dcb87dcb51fe2ee035c9ca819',2);
INSERT INTO "blob_refs" VALUES('45e77cfef754a7ee3faf4c8e1f48c6e348ff63b7eccf61e4f0d52a68c1357f48',2);
CREATE TABLE claims (
  session INTEGER NOT NULL, call_id TEXT NOT NULL, attempt INTEGER NOT NULL, digest TEXT NOT NULL,
  PRIMARY KEY (session, call_id, attempt)
) STRICT, WITHOUT ROWID;
INSERT INTO "claims" VALUES(1,'run_01M7N8603DKQAW3YE48FTRSWV8/call_0_0',1,'8461b901dfe89eaae3ec5b6fdc16a299eef95022fee12d096d50cb971697c8b4');
INSERT INTO "claims" VALUES(2,'run_01M7N861BW597SJ65YF7S5KRFG/call_0_0',1,'3f426a2d78a82ca02c79ddd183cff5e9fd968b8dcb87dcb51fe2ee035c9ca819');
INSERT INTO "claims" VALUES(2,'run_01M7N861BW597SJ65YF7S5KRFG/call_1_0',1,'45e77cfef754a7ee3faf4c8e1f48c6e348ff63b7eccf61e4f0d52a68c1357f48');
CREATE TABLE events (
  session INTEGER NOT NULL, seq INTEGER NOT NULL, ts INTEGER NOT NULL, run_id TEXT, type TEXT NOT NULL,
  payload TEXT NOT NULL, PRIMARY KEY (session, seq)
) STRICT;
INSERT INTO "events" VALUES(1,1,1794935816298,NULL,'session_started','{"sessionId":"sess_01M7N8602H8T1ZCTQJMXPEDH76","state":"idle","mode":"headless","provider":"default","sandboxProvider":"local","repo":{"rootPath":"WORKSPACE"},"options":{"target":"local","sandbox":"host","approvalPolicy":"all","budget":{}},"metadata":{"source":"cli"}}');
INSERT INTO "events" VALUES(1,2,1794935816301,'run_01M7N8603DKQAW3YE48FTRSWV8','user_message','{"messageId":"msg_01M7N8603BR1Q98JJNKZ809ZZX","text":"make it","by":"headless"}');
INSERT INTO "events" VALUES(1,3,1794935816301,'run_01M7N8603DKQAW3YE48FTRSWV8','run_started','{"runId":"run_01M7N8603DKQAW3YE48FTRSWV8","options":{"budget":{"maxTurns":50},"profile":"test","model":"scripted","target":"local","sandbox":"host"},"recording":1}');
INSERT INTO "events" VALUES(1,4,1794935816350,'run_01M7N8603DKQAW3YE48FTRSWV8','progress','{"kind":"provider_call","message":"[1/50] Calling provider","turn":1,"maxTurns":50}');
INSERT INTO "events" VALUES(1,5,1794935816350,'run_01M7N8603DKQAW3YE48FTRSWV8','status','{"source":"orchestrator","phase":"Calling model","detail":"scripted"}');
INSERT INTO "events" VALUES(1,6,1794935816351,'run_01M7N8603DKQAW3YE48FTRSWV8','model_request','{"turn":1,"profile":"test","model":"scripted","api":"scripted","attempt":1,"reservedTokens":3895}');
INSERT INTO "events" VALUES(1,7,1794935816351,'run_01M7N8603DKQAW3YE48FTRSWV8','assistant_token','{"text":"I "}');
INSERT INTO "events" VALUES(1,8,1794935816351,'run_01M7N8603DKQAW3YE48FTRSWV8','assistant_token','{"text":"make it."}');
INSERT INTO "events" VALUES(1,9,1794935816351,'run_01M7N8603DKQAW3YE48FTRSWV8','assistant_message','{"messageId":"asst_01M7N8603DKQAW3YE48FTRSWV8.1","text":"I make it.","toolCalls":[{"callId":"call_0_0","name":"run_shell","arguments":"{\"command\":\"echo made > made.txt\"}"},{"callId":"call_0_1","name":"read_file","arguments":"{\"path\":\"a.txt\"}"}],"finish":"tool_calls","truncated":false}');
INSERT INTO "events" VALUES(1,10,1794935816351,'run_01M7N8603DKQAW3YE48FTRSWV8','assistant_done','{"messageId":"asst_01M7N8603DKQAW3YE48FTRSWV8.1"}');
INSERT INTO "events" VALUES(1,11,1794935816351,'run_01M7N8603DKQAW3YE48FTRSWV8','usage','{"turn":1,"inputTokens":202,"outputTokens":19,"context":{"used":221,"limit":128000,"system":268,"summary":0,"memory":0,"tools":3364,"history":7,"buffer":1024},"budget":{"turns":1,"tokens":221,"toolCalls":0,"seconds":0.05,"limits":{"maxTurns":50}}}');
INSERT INTO "events" VALUES(1,12,1794935816351,'run_01M7N8603DKQAW3YE48FTRSWV8','phase','{"name":"streaming","durationMs":1.0}');
INSERT INTO "events" VALUES(1,13,1794935816351,'run_01M7N8603DKQAW3YE48FTRSWV8','progress','{"kind":"tool_execution","message":"[1/50] Executing tools: run_shell, read_file","turn":1,"maxTurns":50,"toolNames":["run_shell","read_file"],"tiers":{"run_shell":"privileged","read_file":"read-only"}}');
INSERT INTO "events" VALUES(1,14,1794935816495,'run_01M7N8603DKQAW3YE48FTRSWV8','tool_call','{"source":"sandbox","toolName":"run_shell","args":{"command":"echo made > made.txt"},"callId":"call_0_0","target":"local"}');
INSERT INTO "events" VALUES(1,15,1794935816530,'run_01M7N8603DKQAW3YE48FTRSWV8','approval_received','{"approvalId":"appr_01M7N860ACKJG00NJTQ1DQS3E8","decision":"approve","by":"policy","callId":"call_0_0","digest":"8461b901dfe89eaae3ec5b6fdc16a299eef95022fee12d096d50cb971697c8b4"}');
INSERT INTO "events" VALUES(1,16,1794935816530,'run_01M7N8603DKQAW3YE48FTRSWV8','tool_claimed','{"callId":"call_0_0","attempt":1,"tier":"privileged","target":"local","digest":"8461b901dfe89eaae3ec5b6fdc16a299eef95022fee12d096d50cb971697c8b4"}');
INSERT INTO "events" VALUES(1,17,1794935816552,'run_01M7N8603DKQAW3YE48FTRSWV8','tool_result','{"source":"sandbox","toolName":"run_shell","durationMs":19,"isError":false,"text":"exit code: 0","structuredError":null,"callId":"call_0_0","target":"local","exitCode":0,"outcome":"returned"}');
INSERT INTO "events" VALUES(1,18,1794935816564,'run_01M7N8603DKQAW3YE48FTRSWV8','tool_call','{"source":"sandbox","toolName":"read_file","args":{"path":"a.txt"},"callId":"call_0_1","target":"local"}');
INSERT INTO "events" VALUES(1,19,1794935816565,'run_01M7N8603DKQAW3YE48FTRSWV8','tool_result','{"source":"sandbox","toolName":"read_file","durationMs":1,"isError":false,"text":"hello","structuredError":null,"callId":"call_0_1","target":"local","outcome":"returned"}');
INSERT INTO "events" VALUES(1,20,1794935816565,'run_01M7N8603DKQAW3YE48FTRSWV8','phase','{"name":"tool_execution","durationMs":214.0}');
INSERT INTO "events" VALUES(1,21,1794935816565,'run_01M7N8603DKQAW3YE48FTRSWV8','progress','{"kind":"provider_call","message":"[2/50] Calling provider","turn":2,"maxTurns":50}');
INSERT INTO "events" VALUES(1,22,1794935816565,'run_01M7N8603DKQAW3YE48FTRSWV8','status','{"source":"orchestrator","phase":"Calling model","detail":"scripted"}');
INSERT INTO "events" VALUES(1,23,1794935816565,'run_01M7N8603DKQAW3YE48FTRSWV8','model_request','{"turn":2,"profile":"test","model":"scripted","api":"scripted","attempt":1,"reservedTokens":3949}');
INSERT INTO "events" VALUES(1,24,1794935816568,'run_01M7N8603DKQAW3YE48FTRSWV8','assistant_token','{"text":"It "}');
INSERT INTO "events" VALUES(1,25,1794935816568,'run_01M7N8603DKQAW3YE48FTRSWV8','assistant_token','{"text":"is made."}');
INSERT INTO "events" VALUES(1,26,1794935816568,'run_01M7N8603DKQAW3YE48FTRSWV8','assistant_message','{"messageId":"asst_01M7N8603DKQAW3YE48FTRSWV8.2","text":"It is made.","toolCalls":[],"finish":"stop","truncated":false}');
INSERT INTO "events" VALUES(1,27,1794935816568,'run_01M7N8603DKQAW3YE48FTRSWV8','assistant_done','{"messageId":"asst_01M7N8603DKQAW3YE48FTRSWV8.2"}');
INSERT INTO "events" VALUES(1,28,1794935816568,'run_01M7N8603DKQAW3YE48FTRSWV8','usage','{"turn":2,"inputTokens":226,"outputTokens":2,"context":{"used":228,"limit":128000,"system":268,"summary":0,"memory":0,"tools":3364,"history":61,"buffer":1024},"budget":{"turns":2,"tokens":449,"toolCalls":2,"seconds":0.267,"limits":{"maxTurns":50}}}');
INSERT INTO "events" VALUES(1,29,1794935816568,'run_01M7N8603DKQAW3YE48FTRSWV8','phase','{"name":"streaming","durationMs":3.0}');
INSERT INTO "events" VALUES(1,30,1794935816569,'run_01M7N8603DKQAW3YE48FTRSWV8','run_complete','{"runId":"run_01M7N8603DKQAW3YE48FTRSWV8","outcome":"success","summary":"It is made.","headless":{"exitCodeHint":0}}');
INSERT INTO "events" VALUES(2,1,1794935817594,NULL,'session_started','{"sessionId":"sess_01M7N861BKJRHPF8GDZS5CPJF5","state":"idle","mode":"headless","provider":"default","sandboxProvider":"local","repo":{"rootPath":"WORKSPACE"},"options":{"target":"local","sandbox":"host","approvalPolicy":"all","budget":{}},"metadata":{"source":"cli"}}');
INSERT INTO "events" VALUES(2,2,1794935817596,'run_01M7N861BW597SJ65YF7S5KRFG','user_message','{"messageId":"msg_01M7N861BVS3BZ1MAHBZNQJBPN","text":"work on it","by":"headless"}');
INSERT INTO "events" VALUES(2,3,1794935817596,'run_01M7N861BW597SJ65YF7S5KRFG','run_started','{"runId":"run_01M7N861BW597SJ65YF7S5KRFG","options":{"budget":{"maxTurns":50},"profile":"test","model":"scripted","target":"local","sandbox":"host"},"recording":1}');
INSERT INTO "events" VALUES(2,4,1794935817623,'run_01M7N861BW597SJ65YF7S5KRFG','progress','{"kind":"provider_call","message":"[1/50] Calling provider","turn":1,"maxTurns":50}');
INSERT INTO "events" VALUES(2,5,1794935817623,'run_01M7N861BW597SJ65YF7S5KRFG','status','{"source":"orchestrator","phase":"Calling model","detail":"scripted"}');
INSERT INTO "events" VALUES(2,6,1794935817623,'run_01M7N861BW597SJ65YF7S5KRFG','model_request','{"turn":1,"profile":"test","model":"scripted","api":"scripted","attempt":1,"reservedTokens":3896}');
INSERT INTO "events" VALUES(2,7,1794935817623,'run_01M7N861BW597SJ65YF7S5KRFG','assistant_message','{"messageId":"asst_01M7N861BW597SJ65YF7S5KRFG.1","text":"","toolCalls":[{"callId":"call_0_0","name":"run_shell","arguments":"{\"command\":\"echo one >> work.txt\"}"}],"finish":"tool_calls","truncated":false}');
INSERT INTO "events" VALUES(2,8,1794935817623,'run_01M7N861BW597SJ65YF7S5KRFG','assistant_done','{"messageId":"asst_01M7N861BW597SJ65YF7S5KRFG.1"}');
INSERT INTO "events" VALUES(2,9,1794935817623,'run_01M7N861BW597SJ65YF7S5KRFG','usage','{"turn":1,"inputTokens":203,"outputTokens":10,"context":{"used":213,"limit":128000,"system":268,"summary":0,"memory":0,"tools":3364,"history":8,"buffer":1024},"budget":{"turns":1,"tokens":213,"toolCalls":0,"seconds":0.027,"limits":{"maxTurns":50}}}');
INSERT INTO "events" VALUES(2,10,1794935817623,'run_01M7N861BW597SJ65YF7S5KRFG','phase','{"name":"streaming","durationMs":0.0}');
INSERT INTO "events" VALUES(2,11,1794935817623,'run_01M7N861BW597SJ65YF7S5KRFG','progress','{"kind":"tool_execution","message":"[1/50] Executing tools: run_shell","turn":1,"maxTurns":50,"toolNames":["run_shell"],"tiers":{"run_shell":"privileged"}}');
INSERT INTO "events" VALUES(2,12,1794935817865,'run_01M7N861BW597SJ65YF7S5KRFG','tool_call','{"source":"sandbox","toolName":"run_shell","args":{"command":"echo one >> work.txt"},"callId":"call_0_0","target":"local"}');
INSERT INTO "events" VALUES(2,13,1794935817880,'run_01M7N861BW597SJ65YF7S5KRFG','approval_received','{"approvalId":"appr_01M7N861MP8TDRQ4PQ12ADEMRG","decision":"approve","by":"policy","callId":"call_0_0","digest":"3f426a2d78a82ca02c79ddd183cff5e9fd968b8dcb87dcb51fe2ee035c9ca819"}');
INSERT INTO "events" VALUES(2,14,1794935817881,'run_01M7N861BW597SJ65YF7S5KRFG','tool_claimed','{"callId":"call_0_0","attempt":1,"tier":"privileged","target":"local","digest":"3f426a2d78a82ca02c79ddd183cff5e9fd968b8dcb87dcb51fe2ee035c9ca819"}');
INSERT INTO "events" VALUES(2,15,1794935817895,'run_01M7N861BW597SJ65YF7S5KRFG','tool_result','{"source":"sandbox","toolName":"run_shell","durationMs":9,"isError":false,"text":"exit code: 0","structuredError":null,"callId":"call_0_0","target":"local","exitCode":0,"outcome":"returned"}');
INSERT INTO "events" VALUES(2,16,1794935817895,'run_01M7N861BW597SJ65YF7S5KRFG','phase','{"name":"tool_execution","durationMs":272.0}');
INSERT INTO "events" VALUES(2,17,1794935817896,'run_01M7N861BW597SJ65YF7S5KRFG','progress','{"kind":"provider_call","message":"[2/50] Calling provider","turn":2,"maxTurns":50}');
INSERT INTO "events" VALUES(2,18,1794935817896,'run_01M7N861BW597SJ65YF7S5KRFG','status','{"source":"orchestrator","phase":"Calling model","detail":"scripted"}');
INSERT INTO "events" VALUES(2,19,1794935817896,'run_01M7N861BW597SJ65YF7S5KRFG','model_request','{"turn":2,"profile":"test","model":"scripted","api":"scripted","attempt":1,"reservedTokens":3927}');
INSERT INTO "events" VALUES(2,20,1794935817896,'run_01M7N861BW597SJ65YF7S5KRFG','assistant_message','{"messageId":"asst_01M7N861BW597SJ65YF7S5KRFG.2","text":"","toolCalls":[{"callId":"call_1_0","name":"run_shell","arguments":"{\"command\":\"echo two >> work.txt\"}"}],"finish":"tool_calls","truncated":false}');
INSERT INTO "events" VALUES(2,21,1794935817896,'run_01M7N861BW597SJ65YF7S5KRFG','assistant_done','{"messageId":"asst_01M7N861BW597SJ65YF7S5KRFG.2"}');
INSERT INTO "events" VALUES(2,22,1794935817896,'run_01M7N861BW597SJ65YF7S5KRFG','usage','{"turn":2,"inputTokens":216,"outputTokens":10,"context":{"used":226,"limit":128000,"system":268,"summary":0,"memory":0,"tools":3364,"history":39,"buffer":1024},"budget":{"turns":2,"tokens":439,"toolCalls":1,"seconds":0.3,"limits":{"maxTurns":50}}}');
INSERT INTO "events" VALUES(2,23,1794935817896,'run_01M7N861BW597SJ65YF7S5KRFG','phase','{"name":"streaming","durationMs":0.0}');
INSERT INTO "events" VALUES(2,24,1794935817896,'run_01M7N861BW597SJ65YF7S5KRFG','progress','{"kind":"tool_execution","message":"[2/50] Executing tools: run_shell","turn":2,"maxTurns":50,"toolNames":["run_shell"],"tiers":{"run_shell":"privileged"}}');
INSERT INTO "events" VALUES(2,25,1794935817897,'run_01M7N861BW597SJ65YF7S5KRFG','tool_call','{"source":"sandbox","toolName":"run_shell","args":{"command":"echo two >> work.txt"},"callId":"call_1_0","target":"local"}');
INSERT INTO "events" VALUES(2,26,1794935817898,'run_01M7N861BW597SJ65YF7S5KRFG','approval_received','{"approvalId":"appr_01M7N861NABFJ5K3CAGTF2YVJ0","decision":"approve","by":"policy","callId":"call_1_0","digest":"45e77cfef754a7ee3faf4c8e1f48c6e348ff63b7eccf61e4f0d52a68c1357f48"}');
INSERT INTO "events" VALUES(2,27,1794935817898,'run_01M7N861BW597SJ65YF7S5KRFG','tool_claimed','{"callId":"call_1_0","attempt":1,"tier":"privileged","target":"local","digest":"45e77cfef754a7ee3faf4c8e1f48c6e348ff63b7eccf61e4f0d52a68c1357f48"}');
CREATE TABLE inbox (
  item INTEGER PRIMARY KEY AUTOINCREMENT, session INTEGER NOT NULL, key TEXT NOT NULL, kind TEXT NOT NULL,
  body BLOB NOT NULL, taken INTEGER NOT NULL DEFAULT 0, UNIQUE (session, key)
) STRICT;
CREATE TABLE keys (
  session INTEGER NOT NULL, key TEXT NOT NULL, last_seq INTEGER NOT NULL, PRIMARY KEY (session, key)
) STRICT, WITHOUT ROWID;
INSERT INTO "keys" VALUES(1,'msg_01M7N8603BR1Q98JJNKZ809ZZX',3);
INSERT INTO "keys" VALUES(2,'msg_01M7N861BVS3BZ1MAHBZNQJBPN',3);
CREATE TABLE owners (owner TEXT PRIMARY KEY, seen INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO "owners" VALUES('elsewhere:::1::0000000000000000',1);
CREATE TABLE sessions (
  key INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, repo TEXT NOT NULL, root_path TEXT NOT NULL,
  mode TEXT NOT NULL, state TEXT NOT NULL, title TEXT, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL,
  first_seq INTEGER NOT NULL DEFAULT 1, last_seq INTEGER NOT NULL DEFAULT 0, epoch INTEGER NOT NULL, owner TEXT
) STRICT;
INSERT INTO "sessions" VALUES(1,'sess_01M7N8602H8T1ZCTQJMXPEDH76','{"rootPath":"WORKSPACE"}','WORKSPACE','headless','completed',NULL,1794935816283,1794935816569,1,30,1,NULL);
INSERT INTO "sessions" VALUES(2,'sess_01M7N861BKJRHPF8GDZS5CPJF5','{"rootPath":"WORKSPACE"}','WORKSPACE','headless','running',NULL,1794935817592,1794935817898,1,27,1,'elsewhere:::1::0000000000000000');
CREATE TABLE tokens (
  hash TEXT PRIMARY KEY, session INTEGER NOT NULL, role TEXT NOT NULL, expires_at INTEGER
, boot TEXT, boot_ms INTEGER, minted_by TEXT) STRICT, WITHOUT ROWID;
INSERT INTO "tokens" VALUES('9aaa4071fd963e69c0fd26f721c010bc4e865785a5cf5531bb74e4adb029309c',1,'driver',NULL,NULL,NULL,NULL);
INSERT INTO "tokens" VALUES('c8f1304d0aff4d6ae4cf9489b78a9d1a78e3fe8ddb1667c6d7b10126d79fad71',2,'driver',NULL,NULL,NULL,NULL);
CREATE INDEX approvals_of_session ON approvals (session);
CREATE INDEX inbox_waiting ON inbox (session, item) WHERE taken = 0;
CREATE INDEX tokens_of_session ON tokens (session);
CREATE INDEX blob_refs_of_session ON blob_refs (session);
CREATE INDEX decisions ON events (ts, session, seq)
  WHERE type = 'approval_received' OR type = 'approval_expired' OR type = 'approval_policy_changed';
CREATE INDEX tokens_minted ON tokens (minted_by) WHERE minted_by IS NOT NULL;
PRAGMA user_version = 4;
COMMIT;
